#include "bench/gpu/random_memory.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace pipetrain::bench {

namespace {

// make: returns a word of the memory from 32 random bits.
template <class Make>
void fill(Stream& stream, const Buffer& memory, Make make) {
  std::vector<std::uint32_t> words(std::min(memory.bytes() / 4, std::size_t{1} << 22));
  std::mt19937 random(1);
  for (auto& word : words) word = make(static_cast<std::uint32_t>(random()));
  for (std::size_t at = 0; at < memory.bytes(); at += words.size() * 4) {
    stream.copy(static_cast<char*>(memory.data()) + at, words.data(), std::min(words.size() * 4, memory.bytes() - at));
  }
  stream.synchronize();
}

}  // namespace

void fill_with_random_numbers(Stream& stream, const Buffer& memory, float scale) {
  // In each half of a word the sign, the lowest bit of the exponent and the mantissa of a bf16 are random; the rest of
  // the exponent comes from the scale.
  const auto halvings = static_cast<std::uint32_t>(-std::log2(scale));
  const std::uint32_t exponent = 0x3E00U - (halvings << 7);
  const auto half = [&](std::uint32_t bits) { return (bits & 0x8000U) | (exponent + (bits & 0x01FFU)); };
  fill(stream, memory, [&](std::uint32_t bits) { return half(bits >> 16) << 16 | half(bits & 0xFFFFU); });
}

void fill_with_random_fp8(Stream& stream, const Buffer& memory) {
  constexpr std::uint32_t without_upper_exponent_bit = 0xBFBFBFBFU;
  fill(stream, memory, [](std::uint32_t bits) { return bits & without_upper_exponent_bit; });
}

}  // namespace pipetrain::bench
