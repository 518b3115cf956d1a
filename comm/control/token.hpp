// The token of a run.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace pipetrain::control {

// Takes the same time for all inputs, so that nobody can find the token byte by byte. Both at most most_token_bytes
// (frame.hpp) long.
bool same_token(std::span<const std::byte> shown, std::string_view token);

}  // namespace pipetrain::control
