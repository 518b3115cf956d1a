// Memory to measure with: random numbers, because a chip computes zeros faster and cooler.
#pragma once

#include <cstddef>

#include "core/device.hpp"

namespace pipetrain::bench {

// Fills it with numbers that are between 1/8 and 2 times `scale`, a power of two from 1/64 to 1, either sign, both as bf16 and
// as f32. Waits for the stream.
void fill_with_random_numbers(Stream& stream, const Buffer& memory, float scale = 1);

}  // namespace pipetrain::bench
