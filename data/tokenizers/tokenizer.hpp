// A tokenizer turns text into token ids and back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/json_value.hpp"

namespace pipetrain {

enum class SpecialTokens { keep, leave_out };

// Encodes text with memory of its own: use one for each thread.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;
  // Appends the text's ids, with or without the special tokens that the tokenizer's files put around it; special tokens
  // in the text become their ids either way. Bytes that are not UTF-8 count as U+FFFD. Throws Error(input) if a regular
  // expression of the tokenizer gives up on the text.
  virtual void encode(std::string_view text, SpecialTokens around, std::vector<std::int32_t>& ids) = 0;
};

class ChatProgram;

// Says how messages become a text: by a built-in template, see render_chat(), or by one that is interpreted.
struct ChatForm {
  std::string name;                            // of the built-in template; empty: none
  std::shared_ptr<const ChatProgram> program;  // null: none; its text gets no tokens of the tokenizer around it
  bool is_empty() const { return name.empty() && program == nullptr; }
};

// Immutable; all methods are thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::int64_t vocabulary() const = 0;  // every id is below it
  // Without the tokens that only the files next to it name, for which a model may have no ids.
  virtual std::int64_t own_vocabulary() const { return vocabulary(); }
  virtual std::unique_ptr<TextEncoder> encoder() const = 0;  // must not outlive the tokenizer
  std::vector<std::int32_t> encode(std::string_view text, SpecialTokens around = SpecialTokens::keep) const;

  // `ids` are below the vocabulary; an id without a piece is left out.
  virtual std::string decode(std::span<const std::int32_t> ids, SpecialTokens special) const = 0;
  // Returns the piece as the files spell it; empty if there is none.
  virtual std::string piece(std::int32_t id) const = 0;
  virtual std::optional<std::int32_t> find(std::string_view piece) const = 0;

  // Returns the token that ends a text, from the files: "eos_token" of special_tokens_map.json or
  // tokenizer_config.json, else a well-known name.
  virtual std::optional<std::int32_t> end_of_text() const = 0;
  // Returns the form in which the chat template in the tokenizer's files renders messages. The template is read only
  // when this is called, so that a bad one does not matter to data without messages. Throws Error(input) that names the
  // file if its template is damaged.
  virtual ChatForm chat_form() const { return {}; }
  // Returns the members "bos_token", "eos_token" and others that the files name, which are variables of chat templates.
  virtual Json special_tokens() const { return Json::object(); }
  // Returns true if encoders find this piece in a text, if it is special.
  virtual bool is_found_in_texts(std::int32_t) const { return true; }
  // Returns a checksum of the files.
  virtual std::uint64_t content() const = 0;
};

// Opens a file tokenizer.json (Hugging Face), tokenizer.model (sentencepiece) or vocab.json with merges.txt next to it;
// or a folder with one of these, looked for in this order. Also reads tokenizer_config.json, special_tokens_map.json
// and added_tokens.json next to it: tokens that they name and the tokenizer lacks are added, as transformers does.
// Truncation and padding of a tokenizer.json are not applied. Throws Error(input) that names the file, and what is
// wrong or not supported in it.
std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& path);

}  // namespace pipetrain
