// Computes a token's position in its document, from the `documents` of ops/arguments/positions.hpp.
#pragma once

#include <cstdint>

namespace pipetrain {

// token: counted in the microbatch. documents: null if each sequence is one document.
constexpr std::int64_t position_of(std::int64_t token, std::int64_t sequence, const std::int32_t* documents) {
  return token % sequence - (documents == nullptr ? 0 : documents[token]);
}

}  // namespace pipetrain
