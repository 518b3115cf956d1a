// What the launchers of kernels share: from run-time types and widths to template arguments. Only for .cu files.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <type_traits>

#include "core/error.hpp"
#include "core/tensor.hpp"

namespace pipetrain::cuda {

template <class T>
struct Type {
  using type = T;
};

// Calls body(Type<float>) or body(Type<bf16>).
template <class Body>
void with_type(DType dtype, const char* what, Body body) {
  switch (dtype) {
    case DType::f32:
      return body(Type<float>{});
    case DType::bf16:
      return body(Type<__nv_bfloat16>{});
    default:
      throw Error(ErrorKind::internal, std::string(what) + ": not for " + to_string(dtype));
  }
}

template <int N>
using Constant = std::integral_constant<int, N>;

// Calls body with the number of elements one thread handles at once: as many as 16 bytes hold when `wide`, else one.
template <class T, class Body>
void with_width(bool wide, Body body) {
  if (wide) {
    body(Constant<16 / static_cast<int>(sizeof(T))>{});
  } else {
    body(Constant<1>{});
  }
}

inline bool aligned16(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

template <class Integer>
constexpr Integer ceil_div(Integer a, Integer b) {
  return (a + b - 1) / b;
}

inline unsigned blocks_for(std::int64_t work, std::int64_t per_block) {
  return static_cast<unsigned>(ceil_div(work, per_block));
}

template <class T>
T* data_of(const Tensor& tensor) {
  return static_cast<T*>(tensor.data);
}

}  // namespace pipetrain::cuda
