// The keys of a cache that each warp of a block takes for one query. Only for .cu files.
#pragma once

#include "ops/cuda/attention/key_pattern.hpp"

namespace pipetrain::cuda {

// Calls add(key) for every `warps`-th key that the query at this position sees. sparse: the pattern shows more than a window.
template <bool sparse, int warps, class Add>
__device__ void for_keys_of_warp(const KeyPattern& pattern, int position, int warp, Add add) {
  const KeyReach reach = pattern.reach(position, 0);
  if constexpr (sparse) {
    for (int tile = pattern.next_tile(reach, 0, warps); tile <= position;
         tile = pattern.next_tile(reach, tile + warps, warps)) {
      const int key = tile + warp;
      if (key <= position && pattern.shows(reach, key)) add(key);
    }
  } else {
    for (int key = reach.begin + warp; key <= position; key += warps) add(key);
  }
}

}  // namespace pipetrain::cuda
