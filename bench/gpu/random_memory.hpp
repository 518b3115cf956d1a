// Fills memory with random numbers for measurements, because a chip computes zeros faster and cooler.
#pragma once

#include "core/device.hpp"

namespace pipetrain::bench {

// Fills it with numbers between 1/8 and 2 times `scale`, a power of two from 1/64 to 1, of either sign, both as bf16
// and as f32. Waits for the stream.
void fill_with_random_numbers(Stream& stream, const Buffer& memory, float scale = 1);

// Fills it with 8-bit numbers, below 2 both as e4m3 and as e5m2.
void fill_with_random_fp8(Stream& stream, const Buffer& memory);

}  // namespace pipetrain::bench
