// fp16 on the host, for what GPU tests send and get.
#pragma once

#include <bit>
#include <cstdint>

namespace pipetrain::test {

// Rounded to nearest even.
inline std::uint16_t to_half(float value) { return std::bit_cast<std::uint16_t>(static_cast<__extension__ _Float16>(value)); }
inline float from_half(std::uint16_t bits) { return static_cast<float>(std::bit_cast<__extension__ _Float16>(bits)); }

}  // namespace pipetrain::test
