// Encodes rows of texts to token ids, and marks the ids that a model learns to produce. Internal to data/.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/rows/jsonl_row.hpp"
#include "data/rows/preference_row.hpp"
#include "data/rows/text_reading.hpp"
#include "data/tokenizers/chat_program.hpp"
#include "data/tokenizers/tokenizer.hpp"

namespace pipetrain {

// Not thread-safe: use one for each thread.
class RowEncoder {
 public:
  // Throws Error(input) if the tokenizer names no token that ends a text, which follows every document, or if the model
  // has no id for a token that surrounds texts.
  explicit RowEncoder(const TextReading& reading);

  // Appends the row as one document, with the special tokens that the tokenizer puts around a text:
  // - one or more texts, joined and all counted, and the token that ends a text; rows with a class lack that token;
  // - a prompt, and the response with the token that ends a text; only the latter two count;
  // - messages in their template; only the answers count. A template that is interpreted gives the ids of its whole text up to
  //   the end of the last answer, without the special tokens that the tokenizer puts around other texts.
  // Throws RowFault for a row that is wrong, has no answer, or has a token for which the model has no id.
  void add(const Row& row, TokenizedDocuments& documents);
  // Appends a document for each completion, of which the completion counts (see CompletionEncoder). Throws RowFault.
  void add(const PreferenceRow& row, TokenizedDocuments& documents);
  // Appends a document of its own, all of it counted. Throws RowFault for a token without an id.
  void add(std::string_view text, TokenizedDocuments& documents);

 private:
  void add_texts(const Row& row, TokenizedDocuments& documents);
  void add_messages(const Row& row, TokenizedDocuments& documents);
  void add_built_in(const Row& row, const std::string& name, TokenizedDocuments& documents);
  void add_rendered(const Row& row, const ChatProgram& program, TokenizedDocuments& documents);
  RenderedChat rendered_chat(const Row& row, const ChatProgram& program) const;
  // A question, not counted, and the answer to it. Their ids are those of both as one text that follows the end of
  // another answer.
  struct Turn {
    std::string question, answer, behind = {};
  };
  void add_turn(const Turn& turn, TokenizedDocuments& documents);
  void encode_after(const std::string& before, const std::string& text, std::vector<std::int32_t>& ids);
  void add_end(TokenizedDocuments& documents);
  void finish(const Row* row, TokenizedDocuments& documents);
  void check_around() const;
  void check_ids(std::span<const std::int32_t> ids) const;
  const ChatForm& chat_form();

  const Tokenizer& tokenizer_;
  std::unique_ptr<TextEncoder> encoder_;
  std::int32_t end_;
  std::int64_t largest_;             // the largest id that the model has
  std::vector<std::int32_t> front_;  // the tokens that the tokenizer puts in front of a text
  std::string chat_template_, between_texts_;
  std::optional<ChatForm> chat_form_;
  std::vector<std::int32_t> some_, before_;  // ids of a part of a text
};

}  // namespace pipetrain
