// Decodes token ids as they arrive, in whole characters.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.hpp"

namespace pipetrain {

// The text that ids add after a prompt. The text of an id may depend on the ids before it (spaces in front of words),
// and several ids may form one character; so ids are decoded together with the last ones before them, and text is
// returned once it ends with a whole character. Special tokens are left out. Not thread-safe.
class TextStream {
 public:
  // tokenizer: must outlive this object. If it is null, ids are bytes, and ids above 255 have no text.
  TextStream(const Tokenizer* tokenizer, std::vector<std::int32_t> prompt);

  // Returns the text that this id has made certain; UTF-8, may be empty.
  std::string add(std::int32_t id);
  // Returns the rest; an incomplete character becomes U+FFFD.
  std::string finish();

 private:
  std::string add_byte(std::int32_t id);
  std::string decode(std::size_t begin, std::size_t end) const;
  std::string take_new_text(bool all);

  const Tokenizer* tokenizer_;
  std::vector<std::int32_t> ids_;
  std::size_t begin_ = 0;               // the first of the ids that are decoded together
  std::size_t given_ = 0;               // the number of ids whose text has been returned
  std::deque<std::size_t> given_ends_;  // earlier values of given_, between two characters
  std::string bytes_;                   // without a tokenizer: the bytes of an incomplete character
};

}  // namespace pipetrain
