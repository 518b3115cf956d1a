// Names the codes in which numbers travel between ranks in few bits: each block of them has a scale of its own.
#pragma once

#include <cstdint>

namespace pipetrain {

enum class BlockCode {
  none,  // full precision
  int8,  // the nearest of 255 multiples of the block's largest magnitude / 127
  sign,  // plus or minus the mean magnitude of the block
};

// Returns "none", "int8" or "1bit".
constexpr const char* name_of(BlockCode code) {
  return code == BlockCode::int8 ? "int8" : code == BlockCode::sign ? "1bit" : "none";
}

// The words that a block takes: its elements, then its scale in fp32.
struct BlockFormat {
  std::int64_t elements;  // of a block; divides 65,536
  std::int64_t words;     // of 4 bytes
};

constexpr BlockFormat block_format(BlockCode code) {
  return code == BlockCode::int8 ? BlockFormat{256, 65} : code == BlockCode::sign ? BlockFormat{1024, 33} : BlockFormat{1, 1};
}
constexpr std::int64_t blocks_of(BlockCode code, std::int64_t elements) {
  const std::int64_t size = block_format(code).elements;
  return (elements + size - 1) / size;
}

}  // namespace pipetrain
