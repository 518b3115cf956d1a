// Encodes one word to ids. Internal to data/.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "data/tokenizers/text/pieces.hpp"

namespace pipetrain {

// Immutable and thread-safe.
class TokenModel {
 public:
  // Memory that one thread reuses for all words.
  class Scratch {
   public:
    virtual ~Scratch() = default;
  };

  virtual ~TokenModel() = default;
  virtual std::unique_ptr<Scratch> scratch() const = 0;
  // Appends the ids of a word of valid UTF-8, not empty. Takes at most n log n time in its length.
  virtual void encode(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const = 0;
  // Returns where a word can be cut further without changing its ids, so that words are short and repeat often; null: nowhere.
  virtual const PreTokenizer* cuts() const { return nullptr; }
};

}  // namespace pipetrain
