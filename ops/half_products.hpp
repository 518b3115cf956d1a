// How this host's processor multiplies numbers of 16 bits.
#pragma once

#include <string>

#include "core/dtype.hpp"

namespace pipetrain {

struct HalfProducts {
  bool native = false;  // by instructions for this type; else widened to fp32 first, which is slower than fp32 itself
  std::string how;      // "oneDNN, avx512_core_amx_bf16", "widened to fp32"
};

// type: bf16 or f16. Thread-safe.
const HalfProducts& half_products(DType type);

}  // namespace pipetrain
