#include "data/samples/permutation.hpp"

#include <cassert>

namespace pipetrain {

namespace {

std::uint64_t finalise(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

constexpr std::uint64_t golden_gamma = 0x9e3779b97f4a7c15ULL;
constexpr int rounds = 8;

}  // namespace

std::uint64_t random_bits(std::uint64_t key, std::uint64_t counter) {
  return finalise(finalise(key + golden_gamma) + (counter + 1) * golden_gamma);
}

std::uint64_t derive_key(std::uint64_t seed, std::uint64_t a, std::uint64_t b) { return random_bits(random_bits(seed, a), b); }

Permutation::Permutation(std::int64_t size, std::uint64_t key) : size_(static_cast<std::uint64_t>(size)), key_(key) {
  assert(size > 0);
  while (half_bits_ < 31 && (std::uint64_t{1} << (2 * half_bits_)) < size_) ++half_bits_;
}

std::uint64_t Permutation::encrypt(std::uint64_t value) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t next = left ^ (random_bits(key_ + static_cast<std::uint64_t>(round) * golden_gamma, right) & mask);
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

std::int64_t Permutation::operator()(std::int64_t index) const {
  std::uint64_t value = static_cast<std::uint64_t>(index);
  assert(value < size_);
  do {
    value = encrypt(value);
  } while (value >= size_);
  return static_cast<std::int64_t>(value);
}

}  // namespace pipetrain
