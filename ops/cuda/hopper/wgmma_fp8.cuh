// Products of a group of four warps with operands of 8 bits: as wgmma.cuh describes them, except that a box has 128 columns,
// and that columns lie along the depth in both operands, the only layout that these products take. Only for .cu files that are
// compiled for 90a.
//
// They keep about 14 bits of their sums, so few of them may be added to each other: see grouped_fp8.cu.
#pragma once

#include <cuda_fp8.h>

#include "ops/cuda/hopper/wgmma.cuh"

namespace pipetrain::cuda::hopper {

// The operands of one product of depth 32: byte offsets that are added to their descriptors. Adds: the product is added to the
// sums.
template <int AtA, int AtB, bool Adds>
struct Fp8Offsets {};

#define PIPETRAIN_NAMES64                                                            \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define PIPETRAIN_FLOATS8(d, i) \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define PIPETRAIN_FLOATS32(d, i) \
  PIPETRAIN_FLOATS8(d, i), PIPETRAIN_FLOATS8(d, i + 8), PIPETRAIN_FLOATS8(d, i + 16), PIPETRAIN_FLOATS8(d, i + 24)

// sums [64, 128] (+)= a [64, 32] b [32, 128], both in shared memory. The high half of a descriptor is as in wgmma.cuh.
#define PIPETRAIN_MULTIPLY_FP8(Element, type)                                                                      \
  template <int AtA, int AtB, bool Adds>                                                                           \
  __device__ __forceinline__ void multiply(Element, float(&sums)[64], std::uint32_t a, std::uint32_t b,            \
                                           Fp8Offsets<AtA, AtB, Adds>) {                                           \
    asm volatile(                                                                                                  \
        "{\n.reg .b32 la, lb;\n.reg .b64 da, db;\nadd.u32 la, %64, %66;\nadd.u32 lb, %65, %67;\n"                  \
        "mov.b64 da, {la, 0x40000040};\nmov.b64 db, {lb, 0x40000040};\n"                                           \
        "wgmma.mma_async.sync.aligned.m64n128k32.f32." type ".e4m3 {" PIPETRAIN_NAMES64 "}, da, db, %68, 1, 1;\n}" \
        : PIPETRAIN_FLOATS32(sums, 0), PIPETRAIN_FLOATS32(sums, 32)                                                \
        : "r"(a), "r"(b), "n"(AtA / 16), "n"(AtB / 16), "n"(Adds));                                                \
  }
PIPETRAIN_MULTIPLY_FP8(__nv_fp8_e4m3, "e4m3")
PIPETRAIN_MULTIPLY_FP8(__nv_fp8_e5m2, "e5m2")

#undef PIPETRAIN_MULTIPLY_FP8
#undef PIPETRAIN_FLOATS32
#undef PIPETRAIN_FLOATS8
#undef PIPETRAIN_NAMES64

}  // namespace pipetrain::cuda::hopper
