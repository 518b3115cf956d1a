// fp16 on the host, for the inputs and outputs of GPU tests.
#pragma once

#include <bit>
#include <cstdint>

namespace pipetrain::test {

__extension__ using Half = _Float16;

// Rounds to nearest even.
inline std::uint16_t to_half(float value) { return std::bit_cast<std::uint16_t>(static_cast<Half>(value)); }
inline float from_half(std::uint16_t bits) { return static_cast<float>(std::bit_cast<Half>(bits)); }

}  // namespace pipetrain::test
