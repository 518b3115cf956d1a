#include "bench/gpu/random_memory.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace pipetrain::bench {

void fill_with_random_numbers(Stream& stream, const Buffer& memory, float scale) {
  // In both halves of a word the sign, the lowest bit of the exponent and the mantissa of a bf16 are random; the rest of the
  // exponent is the scale's.
  const auto halvings = static_cast<std::uint32_t>(-std::log2(scale));
  const std::uint32_t exponent = 0x3E00U - (halvings << 7);
  std::vector<std::uint32_t> words(std::min(memory.bytes() / 4, std::size_t{1} << 22));
  std::mt19937 random(1);
  for (auto& word : words) {
    const auto half = [&](std::uint32_t bits) { return (bits & 0x8000U) | (exponent + (bits & 0x01FFU)); };
    const auto bits = static_cast<std::uint32_t>(random());
    word = half(bits >> 16) << 16 | half(bits & 0xFFFFU);
  }
  for (std::size_t at = 0; at < memory.bytes(); at += words.size() * 4) {
    stream.copy(static_cast<char*>(memory.data()) + at, words.data(), std::min(words.size() * 4, memory.bytes() - at));
  }
  stream.synchronize();
}

}  // namespace pipetrain::bench
