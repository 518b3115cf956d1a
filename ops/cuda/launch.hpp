// Helpers for launching kernels: they turn run-time types and widths into template arguments. Only for .cu files.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include "core/error.hpp"
#include "core/tensor.hpp"

namespace pipetrain::cuda {

template <class T>
struct Type {
  using type = T;
};

// Calls body(Type<float>), body(Type<bf16>) or body(Type<half>).
template <class Body>
void with_type(DType dtype, const char* what, Body body) {
  switch (dtype) {
    case DType::f32:
      return body(Type<float>{});
    case DType::bf16:
      return body(Type<__nv_bfloat16>{});
    case DType::f16:
      return body(Type<__half>{});
    default:
      throw Error(ErrorKind::internal, std::string(what) + ": not for " + to_string(dtype));
  }
}

// Calls body with both types. A run has a single 16-bit type: bf16 and half are never combined.
template <class Body>
void with_types(DType first, DType second, const char* what, Body body) {
  with_type(first, what, [&](auto a) {
    using A = typename decltype(a)::type;
    with_type(second, what, [&](auto b) {
      using B = typename decltype(b)::type;
      if constexpr (std::is_same_v<A, B> || std::is_same_v<A, float> || std::is_same_v<B, float>) {
        body(a, b);
      } else {
        throw Error(ErrorKind::internal, std::string(what) + ": not for " + to_string(first) + " and " + to_string(second));
      }
    });
  });
}

template <int N>
using Constant = std::integral_constant<int, N>;

// Calls body with the number of elements that one thread handles at once: as many as 16 bytes hold if `wide`, else one.
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

// Starts a kernel that begins with wait_for_previous(). Its launch overlaps the end of the previous kernel in
// the stream (programmatic dependent launch), which saves 1 to 2 us of the 10 to 40 that these kernels take.
// Code before wait_for_previous() may run while even the kernel before the previous one still runs, so it must
// not access memory. shared: bytes of dynamic shared memory.
template <class... Parameters, class... Arguments>
void launch(cudaStream_t stream, void (*kernel)(Parameters...), dim3 blocks, dim3 threads, std::size_t shared,
            Arguments... arguments) {
  cudaLaunchAttribute overlap = {};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

template <class T>
T* data_of(const Tensor& tensor) {
  return static_cast<T*>(tensor.data);
}

template <class T>
T* data_or_null(const std::optional<Tensor>& tensor) {
  return tensor ? data_of<T>(*tensor) : nullptr;
}

// Returns the memory that the next kernel raises to the largest magnitude of its result, as raise_by_block()
// does, set to zero; null if it is not wanted.
inline unsigned* begin_largest(cudaStream_t stream, const std::optional<Tensor>& largest) {
  if (!largest) return nullptr;
  cudaMemsetAsync(largest->data, 0, sizeof(float), stream);
  return data_of<unsigned>(*largest);
}

}  // namespace pipetrain::cuda
