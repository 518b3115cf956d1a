// Texts of files to token ids, by several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/row_limits.hpp"
#include "data/tokenizers/tokenizer.hpp"

namespace pipetrain {

class TokenStream;
class UnreadKeys;

// Documents one behind the other, each with the special tokens that the tokenizer puts around a text and, behind it, the one
// that ends a text, where it does not put that itself.
struct TokenizedDocuments {
  std::vector<std::int32_t> ids;
  std::vector<bool> counted;          // as many: what a model is to learn to say
  std::vector<std::size_t> ends;      // of each document, in ids
  std::vector<std::int32_t> classes;  // of each document, where they have one; else empty
};

// How texts in files become tokens.
struct TextReading {
  const Tokenizer* tokenizer = nullptr;
  int threads = 1;
  std::vector<std::string> text_keys = {"text"};  // of a row, in their order
  bool text_keys_chosen = false;                  // by the user: what else is in rows of texts is passed over
  UnreadKeys* unread = nullptr;                   // gets the keys of rows that nobody knows
  std::string chat_template = {};                 // of rows {"messages"}; empty: as the tokenizer tells
  std::string between_texts = {};                 // of one row
  bool only_texts = false;                        // refuses rows that say which of their tokens count
  std::optional<RowLimits> limits = {};           // documents are samples of their own, within these
  std::int64_t vocabulary = 0;                    // of the model, which every id must be below; 0: of any
};

// Reads files .txt (one document), .jsonl and .parquet (one a row; rows with an empty text are passed over) in their order, and
// hands over what they become in this order too, part by part, on the calling thread. Memory: a few parts of about 1 MB for
// each thread, or the largest document. Throws Error(input) that names file and line, or where the tokenizer names no token
// that ends a text; and what `take` throws.
void tokenize_files(const std::vector<std::filesystem::path>& files, const TextReading& reading,
                    const std::function<void(TokenizedDocuments&&)>& take);

// All of a text as one document.
TokenizedDocuments tokenize_text(std::string_view text, const Tokenizer& tokenizer);

// Files tokenized into memory: 2 or 4 bytes an id, as the vocabulary needs.
std::unique_ptr<TokenStream> tokenized_in_memory(const std::vector<std::filesystem::path>& files, const TextReading& reading);
std::unique_ptr<TokenStream> tokenized_in_memory(std::string_view text, const Tokenizer& tokenizer, std::int64_t vocabulary);

}  // namespace pipetrain
