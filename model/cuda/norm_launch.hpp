// How the norms' kernels are launched: a block a row, the row spread over its threads' registers. Only for .cu files.
#pragma once

#include "model/cuda/launch.hpp"
#include "model/cuda/vector.cuh"

namespace pipetrain::cuda {

inline int round_to_warps(std::int64_t threads) { return static_cast<int>(ceil_div<std::int64_t>(threads, 32) * 32); }

// Packs a thread of a forward: several, so that enough loads are in flight.
inline int forward_packs(std::int64_t packs) { return packs >= 256 ? 4 : packs >= 128 ? 2 : 1; }

// Calls body(Constant<N>, threads): the fewest packs N a thread, at least `wanted`, so that at most `limit` threads make a row.
template <class Body>
void with_packs(const char* what, std::int64_t packs, int wanted, int limit, Body body) {
  const auto fits = [&](int n) { return n >= wanted && ceil_div<std::int64_t>(packs, n) <= limit; };
  const auto threads = [&](int n) { return round_to_warps(ceil_div<std::int64_t>(packs, n)); };
  if (fits(1)) return body(Constant<1>{}, threads(1));
  if (fits(2)) return body(Constant<2>{}, threads(2));
  if (fits(4)) return body(Constant<4>{}, threads(4));
  if (fits(8)) return body(Constant<8>{}, threads(8));
  throw Error(ErrorKind::unavailable,
              std::string(what) + " on GPUs: the hidden size is too large; a multiple of 8 up to 32768 works");
}

// Calls body(T, TW, W) for these types.
template <class Body>
void with_norm_types(const char* what, const Tensor& x, const Tensor& weight, bool aligned, Body body) {
  with_type(x.dtype, what, [&](auto t) {
    with_type(weight.dtype, what, [&](auto tw) {
      using T = typename decltype(t)::type;
      with_width<T>(aligned && x.cols() % full_width<T> == 0, [&](auto w) { body(t, tw, w); });
    });
  });
}

}  // namespace pipetrain::cuda
