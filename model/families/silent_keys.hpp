// Keys of config.json that change nothing of what a model computes.
#pragma once

#include <span>

namespace pipetrain {

// Those of every family that no reader asks for: how the file was made, how text is generated, how outputs are returned, and
// how programs are to compute what they would compute anyway.
std::span<const char* const> silent_keys();

}  // namespace pipetrain
