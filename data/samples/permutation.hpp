// Random numbers and permutations that are pure functions of their arguments: no state to save, the same on every machine.
#pragma once

#include <cstdint>

namespace pipetrain {

// 64 random bits for (key, counter): the finaliser of SplitMix64 (Steele, Lea, Flood 2014) over both.
std::uint64_t random_bits(std::uint64_t key, std::uint64_t counter);

// Returns a key for one purpose, from a seed and two numbers that keep purposes apart.
std::uint64_t derive_key(std::uint64_t seed, std::uint64_t a, std::uint64_t b = 0);

// A bijection of [0, size): a keyed Feistel network over the next power of four, walked until it lands inside (Black, Rogaway
// 2002). Constant memory; immutable and thread-safe.
class Permutation {
 public:
  Permutation(std::int64_t size, std::uint64_t key);
  std::int64_t operator()(std::int64_t index) const;  // index in [0, size)

 private:
  std::uint64_t encrypt(std::uint64_t value) const;

  std::uint64_t size_;
  std::uint64_t key_;
  int half_bits_ = 1;
};

}  // namespace pipetrain
