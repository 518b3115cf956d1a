// Changes valid texts into new inputs for parsers: it changes bytes, and the parts between the brackets and lines of a text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pipetrain::fuzz {

// SplitMix64 (Steele, Lea, Flood 2014): equal seeds give equal numbers on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t bits();
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(bits() % count); }  // count > 0
  bool one_in(std::size_t count) { return below(count) == 0; }

 private:
  std::uint64_t state_;
};

inline constexpr std::size_t most_input_bytes = std::size_t{1} << 16;

// Returns one of the texts with one to eight changes: numbers at the limits of types, words of the dictionary, members
// and lines that are repeated, removed, swapped or taken from another text, deep nesting, long repeats, NUL and bytes
// that are not UTF-8. At most most_input_bytes. `texts` must not be empty.
std::string mutated(Random& random, const std::vector<std::string>& texts, const std::vector<std::string>& dictionary);

// Makes one to four changes of single bytes.
void mutate_bytes(Random& random, std::string& text);

}  // namespace pipetrain::fuzz
