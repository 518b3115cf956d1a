// Rows of texts to token ids, and which of them a model is to learn to say. Internal to data/.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/rows/jsonl_row.hpp"
#include "data/rows/text_reading.hpp"
#include "data/tokenizers/tokenizer.hpp"

namespace pipetrain {

// Not thread-safe: one for each thread.
class RowEncoder {
 public:
  // Throws Error(input) where the tokenizer names no token that ends a text, which stands behind every document, or where the
  // model has no id for a token that stands around texts.
  explicit RowEncoder(const TextReading& reading);

  // Appends the row as one document, with the special tokens that the tokenizer puts around a text:
  // - a text, or several one behind the other, all of it counted, and the token that ends a text; with a class, without it;
  // - a prompt, and the response with the token that ends a text, which alone count;
  // - messages in their template, the answers of which count. The ids of a template that is interpreted are those of its whole
  //   text, up to the last answer's end, without what the tokenizer puts around other texts.
  // Throws RowFault for a row that is wrong, has no answer, or has a token for which the model has no id.
  void add(const Row& row, TokenizedDocuments& documents);
  // A document of its own, all of it counted. Throws RowFault for such a token.
  void add(std::string_view text, TokenizedDocuments& documents);

 private:
  void add_texts(const Row& row, TokenizedDocuments& documents);
  void add_messages(const Row& row, TokenizedDocuments& documents);
  void add_built_in(const Row& row, const std::string& name, TokenizedDocuments& documents);
  void add_rendered(const Row& row, const ChatProgram& program, TokenizedDocuments& documents);
  // How many of the ids stand for the text before an offset. `straddles`: an id stands for what is on both sides of it.
  struct IdBoundary {
    std::size_t ids = 0;
    bool straddles = false;
  };
  IdBoundary boundary(std::string_view text, std::size_t offset, std::span<const std::int32_t> ids);
  // A question, not counted, and the answer to it. Their ids are those of both as one text, behind the end of another answer.
  struct Turn {
    std::string question, answer, behind = {};
  };
  void add_turn(const Turn& turn, TokenizedDocuments& documents);
  void encode_behind(const std::string& before, const std::string& text, std::vector<std::int32_t>& ids);
  void add_end(TokenizedDocuments& documents);
  void finish(const Row* row, TokenizedDocuments& documents);
  void check_around() const;
  void check_ids(std::span<const std::int32_t> ids) const;
  const ChatForm& chat_form();

  const Tokenizer& tokenizer_;
  std::unique_ptr<TextEncoder> encoder_;
  std::int32_t end_;
  std::int64_t largest_;             // of the ids that the model has
  std::vector<std::int32_t> front_;  // what the tokenizer puts in front of a text
  std::string chat_template_, between_texts_;
  std::optional<ChatForm> chat_form_;
  std::vector<std::int32_t> some_, before_;  // ids of a part
};

}  // namespace pipetrain
