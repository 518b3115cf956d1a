// What producer and consumer do with a message at least, in every way of moving it that is measured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace pipetrain::bench {

// So many messages of a size are under way at most, and so many are not counted.
constexpr int buffers = 4, warm_up = 4;

inline void write_message(void* data, std::size_t bytes, int number) { std::memset(data, number, bytes); }

// Whole words; the sum is told to nobody, and yet not optimized away.
inline void read_message(const void* data, std::size_t bytes) {
  const auto* words = static_cast<const std::uint64_t*>(data);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bytes / sizeof *words; ++i) sum += words[i];
  asm volatile("" : : "r"(sum) : "memory");
}

}  // namespace pipetrain::bench
