// A test case that cannot test here says so and returns: a case that skipped and made no assertion counts as skipped,
// not as passed (tests/main.cpp).
#pragma once

#include <string>

namespace pipetrain::test {

// Prints the reason as a warning. May be called several times in one test case.
void skip(const std::string& reason);

// Returns true if there are this many GPUs; otherwise skips. Throws the CUDA driver's errors.
bool needs_gpus(int present, int wanted = 1);

}  // namespace pipetrain::test
