// The rotation of latent attention's heads, whose first columns stay as they are. Only for .cu files.
#pragma once

#include "ops/arguments/all.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/rotate.cuh"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {

// The columns of a head's queries and keys, and of its values.
struct LatentColumns {
  int heads, plain, rotated, value;

  __device__ __host__ int head() const { return plain + rotated; }
  __device__ __host__ int expanded() const { return plain + value; }  // of a head's keys and values before they are packed
  __device__ __host__ int first_key() const { return heads * head(); }
  __device__ __host__ int first_value() const { return 2 * heads * head(); }
  __device__ __host__ int packed() const { return first_value() + heads * value; }
};

inline LatentColumns latent_columns(const SegmentShape& shape, const Tensor& cos_sin) {
  const int rotated = static_cast<int>(2 * cos_sin.shape[2]);
  return {static_cast<int>(shape.heads), static_cast<int>(shape.head_dim) - rotated, rotated,
          static_cast<int>(shape.value_dim())};
}

// The angles of one position.
struct LatentTurn {
  const float* cosines;  // [half], then the sines
  int half;
  bool interleaved;  // columns (2i, 2i + 1) rotate together, instead of columns (i, i + half)
  float direction;   // -1: back

  // Writes columns [at, at + W) of `columns` [2 half], rotated. at: a multiple of W.
  template <int W, class T, class R>
  __device__ void rotate(const T* columns, int at, R (&out)[W]) const {
    const auto turned = [&](float first, float second, int angle) {
      return rotated(static_cast<R>(first), static_cast<R>(second), static_cast<R>(cosines[angle]),
                     static_cast<R>(cosines[half + angle] * direction));
    };
    if (!interleaved) {
      const int low = at < half ? at : at - half;
#pragma unroll
      for (int i = 0; i < W; ++i) {
        const auto both = turned(to_float(columns[low + i]), to_float(columns[low + half + i]), low + i);
        out[i] = at < half ? both.x : both.y;
      }
    } else if constexpr (W == 1) {
      const int low = at - at % 2;
      const auto both = turned(to_float(columns[low]), to_float(columns[low + 1]), low / 2);
      out[0] = at == low ? both.x : both.y;
    } else {
#pragma unroll
      for (int i = 0; i < W; i += 2) {
        const auto both = turned(to_float(columns[at + i]), to_float(columns[at + i + 1]), (at + i) / 2);
        out[i] = both.x, out[i + 1] = both.y;
      }
    }
  }
};

}  // namespace pipetrain::cuda
