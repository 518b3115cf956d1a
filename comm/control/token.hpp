// The token of a run.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace pipetrain::control {

// Takes the same time for all inputs, so that nobody can find the token byte by byte. Both at most most_token_bytes
// (frame.hpp) long.
bool same_token(std::span<const std::byte> shown, std::string_view token);

// Returns 128 bits that nobody can guess, in hexadecimal digits. Throws Error(unavailable) if the host has none.
std::string random_token();

}  // namespace pipetrain::control
