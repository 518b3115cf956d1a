// The least work of producer and consumer on a message, equal for every measured way of moving it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace pipetrain::bench {

// The most messages of a size in flight, and the number that is not counted.
constexpr int buffers = 4, warm_up = 4;

inline void write_message(void* data, std::size_t bytes, int number) { std::memset(data, number, bytes); }

// Reads whole words; the sum keeps the compiler from removing the reads.
inline void read_message(const void* data, std::size_t bytes) {
  const auto* words = static_cast<const std::uint64_t*>(data);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bytes / sizeof *words; ++i) sum += words[i];
  asm volatile("" : : "r"(sum) : "memory");
}

}  // namespace pipetrain::bench
