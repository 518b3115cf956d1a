// TextReading says how texts become tokens, and TokenizedDocuments are what they become.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/rows/row_limits.hpp"

namespace pipetrain {

class Tokenizer;
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

}  // namespace pipetrain
