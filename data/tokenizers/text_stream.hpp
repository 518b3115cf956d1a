// Token ids to text as they come, in whole characters.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.hpp"

namespace pipetrain {

// The text that ids add behind a prompt. What an id means may depend on those before it (spaces in front of words), and several
// may make up one character; so ids are decoded together with the last ones before them, and text is given once it ends with a
// whole character. Special tokens are left out. Not thread-safe.
class TextStream {
 public:
  // tokenizer: outlives it; null: ids are bytes, and ids above 255 no text.
  TextStream(const Tokenizer* tokenizer, std::vector<std::int32_t> prompt);

  // The text that has become certain with this id; UTF-8, may be empty.
  std::string add(std::int32_t id);
  // What is left; where it is no whole character, U+FFFD.
  std::string finish();

 private:
  std::string add_byte(std::int32_t id);
  std::string decode(std::size_t begin, std::size_t end) const;
  std::string take_new_text(bool all);

  const Tokenizer* tokenizer_;
  std::vector<std::int32_t> ids_;
  std::size_t begin_ = 0;               // of the ids that are decoded together
  std::size_t given_ = 0;               // ids whose text has been given
  std::deque<std::size_t> given_ends_;  // earlier ones: between two characters
  std::string bytes_;                   // without a tokenizer: of a character that is not whole yet
};

}  // namespace pipetrain
