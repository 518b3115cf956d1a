// Memory to measure with: random numbers, because a chip computes zeros faster and cooler.
#pragma once

#include <cstddef>

#include "core/device.hpp"

namespace pipetrain::bench {

// Fills it with numbers that are between 1/8 and 2 times `scale`, a power of two from 1/64 to 1, either sign, both as bf16 and
// as f32. Waits for the stream.
void fill_with_random_numbers(Stream& stream, const Buffer& memory, float scale = 1);

// The same with numbers of 8 bits, below 2 both as e4m3 and as e5m2.
void fill_with_random_fp8(Stream& stream, const Buffer& memory);

}  // namespace pipetrain::bench
