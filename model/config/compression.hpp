// Compression names the numbers that data-parallel replicas exchange in few bits.
#pragma once

#include "core/block_code.hpp"

namespace pipetrain {

struct Compression {
  BlockCode gradients = BlockCode::none;  // of matrices, with error feedback
  bool operator==(const Compression&) const = default;
};

}  // namespace pipetrain
