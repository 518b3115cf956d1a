// Changes valid texts into ones that parsers have not seen: bytes, and what stands between the brackets and lines of a text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pipetrain::fuzz {

// SplitMix64 (Steele, Lea, Flood 2014): the same numbers for the same seed on every machine.
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

// One of the texts with one to eight changes: numbers at the edges of types, words of the dictionary, members and lines that
// come twice, are gone, swapped or of another text, deep nesting, long repeats, NUL and bytes that are not UTF-8. At most
// most_input_bytes. `texts` is not empty.
std::string mutated(Random& random, const std::vector<std::string>& texts, const std::vector<std::string>& dictionary);

// One to four changes of bytes alone.
void mutate_bytes(Random& random, std::string& text);

}  // namespace pipetrain::fuzz
