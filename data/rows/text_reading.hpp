// TextReading says how texts are tokenized; TokenizedDocuments holds the result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/rows/row_limits.hpp"
#include "data/rows/text_keys.hpp"

namespace pipetrain {

class Tokenizer;
class UnreadKeys;

// Consecutive documents, each with the special tokens that the tokenizer puts around a text and, unless it does that
// itself, followed by the token that ends a text.
struct TokenizedDocuments {
  std::vector<std::int32_t> ids;
  std::vector<bool> counted;          // one for each id: whether a model learns to produce it
  std::vector<std::size_t> ends;      // the end of each document, in ids
  std::vector<std::int32_t> classes;  // one for each document, if they have classes; else empty
  std::vector<bool> desirable;        // one for each document, if they are completions with labels; else empty
};

// Says how texts in files are tokenized.
struct TextReading {
  const Tokenizer* tokenizer = nullptr;
  int threads = 1;
  TextKeys text_keys = {};
  UnreadKeys* unread = nullptr;          // collects unknown keys of rows
  std::string chat_template = {};        // for rows {"messages"}; empty: the tokenizer's
  std::string between_texts = {};        // between several texts of one row
  bool only_texts = false;               // refuses rows that say which of their tokens count
  std::optional<RowLimits> limits = {};  // set if documents are samples of their own, which must keep these limits
  std::int64_t vocabulary = 0;           // the model's, which every id must be below; 0: no limit

  bool reads_preferences() const { return limits && limits->preferences; }
};

}  // namespace pipetrain
