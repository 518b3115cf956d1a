// IdBoundaries finds the ids that encode the beginning of a text. Internal to data/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "data/tokenizers/tokenizer.hpp"

namespace pipetrain {

// The number of a text's ids that encode the text before an offset.
struct IdBoundary {
  std::size_t ids = 0;
  bool straddles = false;  // the next id encodes text on both sides of the offset
  std::size_t offset = 0;
};

// Not thread-safe. Keeps references to all arguments; `ids` are those of the whole text, without special tokens around it.
class IdBoundaries {
 public:
  IdBoundaries(const Tokenizer& tokenizer, TextEncoder& encoder, std::string_view text, const std::vector<std::int32_t>& ids)
      : tokenizer_(tokenizer), encoder_(encoder), text_(text), ids_(ids) {}

  // `known`: a boundary before the offset.
  IdBoundary find(std::size_t offset, const IdBoundary& known);

 private:
  IdBoundary after(const IdBoundary& from, std::size_t offset);

  const Tokenizer& tokenizer_;
  TextEncoder& encoder_;
  std::string_view text_;
  const std::vector<std::int32_t>& ids_;
  std::vector<std::int32_t> before_;  // the ids of the text before the offset
};

}  // namespace pipetrain
