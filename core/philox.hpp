// Philox4x32-10, the counter-based random generator of Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3":
// four random words as a pure function of a 64-bit key and a 128-bit counter. For GPU code too.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace pipetrain {

using PhiloxKey = std::array<std::uint32_t, 2>;

// Return the two halves of a 64-bit number, for keys and counters.
constexpr std::uint32_t low_word(std::uint64_t value) noexcept { return static_cast<std::uint32_t>(value); }
constexpr std::uint32_t high_word(std::uint64_t value) noexcept { return static_cast<std::uint32_t>(value >> 32); }

// Many counters side by side, word by word, so that the inner loops vectorise.
template <std::size_t lanes>
using PhiloxWords = std::array<std::array<std::uint32_t, lanes>, 4>;

// Replaces every lane's counter by its random words.
template <std::size_t lanes>
constexpr void philox(PhiloxKey key, PhiloxWords<lanes>& words) noexcept {
  auto& [w0, w1, w2, w3] = words;
  for (int round = 0; round < 10; ++round) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const std::uint64_t first = std::uint64_t{0xD2511F53} * w0[lane], second = std::uint64_t{0xCD9E8D57} * w2[lane];
      w0[lane] = static_cast<std::uint32_t>(second >> 32) ^ w1[lane] ^ key[0];
      w1[lane] = static_cast<std::uint32_t>(second);
      w2[lane] = static_cast<std::uint32_t>(first >> 32) ^ w3[lane] ^ key[1];
      w3[lane] = static_cast<std::uint32_t>(first);
    }
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
}

}  // namespace pipetrain
