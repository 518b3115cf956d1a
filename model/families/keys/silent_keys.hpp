// The keys of config.json that do not change what a model computes.
#pragma once

#include <span>

namespace pipetrain {

// Returns the keys of every family that no reader asks for: how the file was made, how text is generated, how outputs are
// returned, and how programs are to compute the same results.
std::span<const char* const> silent_keys();

}  // namespace pipetrain
