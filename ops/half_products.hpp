// Reports how this host's processor multiplies 16-bit numbers.
#pragma once

#include <string>

#include "core/dtype.hpp"

namespace pipetrain {

struct HalfProducts {
  // True if there are instructions for this type; otherwise it is widened to fp32 first, which is slower than fp32 itself.
  bool native = false;
  std::string how;  // "oneDNN, avx512_core_amx_bf16", "widened to fp32"
};

// type: bf16 or f16. Thread-safe.
const HalfProducts& half_products(DType type);

}  // namespace pipetrain
