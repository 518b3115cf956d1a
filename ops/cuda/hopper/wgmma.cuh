// Products of a group of four warps (wgmma): operands of 16 bits in shared memory or registers, sums in fp32 in registers. PTX
// ISA 8.0, "Asynchronous Warpgroup Level Matrix Instructions". Only for .cu files that are compiled for 90a.
//
// Operands in shared memory have the layout in which load_box() writes a box of 64 columns with a swizzle of
// 128 bytes: rows of 128 bytes, beginning at multiples of 1,024 bytes. The 64 rows of a sum have this layout:
// lane l of warp w holds in [4 j], [4 j + 1] columns 8 j + 2 (l % 4) and the next of row 16 w + l / 4, and in
// [4 j + 2], [4 j + 3] those of the row 8 below.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>
#include <utility>

namespace pipetrain::cuda::hopper {

// Call it before the first product after registers of sums or operands were written.
__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
// Closes a group of products.
__device__ __forceinline__ void end_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Returns when all groups but the last N are complete.
template <int N>
__device__ __forceinline__ void wait_for_groups_but() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

// Returns the low half of an operand's descriptor, which changes. If the columns are the product's rows or
// columns, `apart` is the distance of their boxes in bytes.
__device__ __forceinline__ std::uint32_t operand(std::uint32_t shared_address, int apart = 16) {
  return (shared_address & 0x3FFFF) >> 4 | static_cast<std::uint32_t>(apart >> 4) << 16;
}

// The axis of the product along which an operand's columns lie: its depth, or its rows and columns.
enum class Along { depth = 0, sides = 1 };

// The operands of one product of depth 16: byte offsets that are added to their descriptors, and the axis along
// which the operands' columns lie. Adds: the product is added to the sums.
template <int AtA, int AtB, Along OfA, Along OfB, bool Adds>
struct DescriptorOffsets {};

#define PIPETRAIN_FLOATS8(d, i) \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define PIPETRAIN_FLOATS32(d, i) \
  PIPETRAIN_FLOATS8(d, i), PIPETRAIN_FLOATS8(d, i + 8), PIPETRAIN_FLOATS8(d, i + 16), PIPETRAIN_FLOATS8(d, i + 24)
// The high half of every descriptor: 1,024 bytes between groups of eight rows, swizzle of 128 bytes.
#define PIPETRAIN_DESCRIPTOR(name, low) "mov.b64 " name ", {" low ", 0x40000040};\n"
#define PIPETRAIN_NAMES16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define PIPETRAIN_NAMES32 \
  PIPETRAIN_NAMES16       \
  ", "                    \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define PIPETRAIN_NAMES64                                                            \
  PIPETRAIN_NAMES32                                                                  \
  ", "                                                                               \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

#define PIPETRAIN_NAMES96                                                            \
  PIPETRAIN_NAMES64                                                                  \
  ", "                                                                               \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define PIPETRAIN_NAMES128                                                                     \
  PIPETRAIN_NAMES64                                                                            \
  ", "                                                                                         \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "           \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "           \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, "     \
  "%111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, " \
  "%126, %127"

// sums [64, 2 R] (+)= a [64, 16] b [16, 2 R], both in shared memory.
#define PIPETRAIN_MULTIPLY_SHARED(Element, type, columns, R, at_a, at_b, step_a, step_b, adds, of_a, of_b)                     \
  template <int AtA, int AtB, Along OfA, Along OfB, bool Adds>                                                                 \
  __device__ __forceinline__ void multiply(Element, float(&sums)[R], std::uint32_t a, std::uint32_t b,                         \
                                           DescriptorOffsets<AtA, AtB, OfA, OfB, Adds>) {                                      \
    asm volatile(                                                                                                              \
        "{\n.reg .b32 la, lb;\n.reg .b64 da, db;\nadd.u32 la, %" #at_a ", %" #step_a ";\nadd.u32 lb, %" #at_b ", %" #step_b    \
        ";\n" PIPETRAIN_DESCRIPTOR("da", "la")                                                                                 \
            PIPETRAIN_DESCRIPTOR("db", "lb") "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type "." type             \
                                             " {" PIPETRAIN_NAMES##R "}, da, db, %" #adds ", 1, 1, %" #of_a ", %" #of_b ";\n}" \
        : PIPETRAIN_OUTPUTS##R(sums)                                                                                           \
        : "r"(a), "r"(b), "n"(AtA / 16), "n"(AtB / 16), "n"(Adds), "n"(static_cast<int>(OfA)), "n"(static_cast<int>(OfB)));    \
  }
// sums [64, 2 R] += a [64, 16] b [16, 2 R], a in registers as two adjacent elements of each column of a sum.
#define PIPETRAIN_MULTIPLY_REGISTERS(Element, type, columns, R, a0, a1, a2, a3, at_b, step_b, of_b)                            \
  template <int AtB, Along OfB>                                                                                                \
  __device__ __forceinline__ void multiply(Element, float(&sums)[R], const std::uint32_t(&a)[4], std::uint32_t b,              \
                                           DescriptorOffsets<0, AtB, Along::depth, OfB, true>) {                               \
    asm volatile("{\n.reg .b32 lb;\n.reg .b64 db;\nadd.u32 lb, %" #at_b ", %" #step_b ";\n" PIPETRAIN_DESCRIPTOR(              \
                     "db", "lb") "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type "." type " {" PIPETRAIN_NAMES##R \
                 "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, db, 1, 1, 1, %" #of_b ";\n}"                                    \
                 : PIPETRAIN_OUTPUTS##R(sums)                                                                                  \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "n"(AtB / 16), "n"(static_cast<int>(OfB)));             \
  }
#define PIPETRAIN_OUTPUTS16(d) PIPETRAIN_FLOATS8(d, 0), PIPETRAIN_FLOATS8(d, 8)
#define PIPETRAIN_OUTPUTS32(d) PIPETRAIN_FLOATS32(d, 0)
#define PIPETRAIN_OUTPUTS64(d) PIPETRAIN_FLOATS32(d, 0), PIPETRAIN_FLOATS32(d, 32)
#define PIPETRAIN_OUTPUTS96(d) PIPETRAIN_OUTPUTS64(d), PIPETRAIN_FLOATS32(d, 64)
#define PIPETRAIN_OUTPUTS128(d) PIPETRAIN_OUTPUTS64(d), PIPETRAIN_FLOATS32(d, 64), PIPETRAIN_FLOATS32(d, 96)

PIPETRAIN_MULTIPLY_SHARED(__nv_bfloat16, "bf16", 32, 16, 16, 17, 18, 19, 20, 21, 22)
PIPETRAIN_MULTIPLY_SHARED(__nv_bfloat16, "bf16", 64, 32, 32, 33, 34, 35, 36, 37, 38)
PIPETRAIN_MULTIPLY_SHARED(__nv_bfloat16, "bf16", 128, 64, 64, 65, 66, 67, 68, 69, 70)
PIPETRAIN_MULTIPLY_SHARED(__nv_bfloat16, "bf16", 256, 128, 128, 129, 130, 131, 132, 133, 134)
PIPETRAIN_MULTIPLY_SHARED(__half, "f16", 32, 16, 16, 17, 18, 19, 20, 21, 22)
PIPETRAIN_MULTIPLY_SHARED(__half, "f16", 64, 32, 32, 33, 34, 35, 36, 37, 38)
PIPETRAIN_MULTIPLY_SHARED(__half, "f16", 128, 64, 64, 65, 66, 67, 68, 69, 70)
PIPETRAIN_MULTIPLY_SHARED(__half, "f16", 256, 128, 128, 129, 130, 131, 132, 133, 134)
PIPETRAIN_MULTIPLY_REGISTERS(__nv_bfloat16, "bf16", 64, 32, 32, 33, 34, 35, 36, 37, 38)
PIPETRAIN_MULTIPLY_REGISTERS(__nv_bfloat16, "bf16", 128, 64, 64, 65, 66, 67, 68, 69, 70)
PIPETRAIN_MULTIPLY_REGISTERS(__nv_bfloat16, "bf16", 192, 96, 96, 97, 98, 99, 100, 101, 102)
PIPETRAIN_MULTIPLY_REGISTERS(__half, "f16", 64, 32, 32, 33, 34, 35, 36, 37, 38)
PIPETRAIN_MULTIPLY_REGISTERS(__half, "f16", 128, 64, 64, 65, 66, 67, 68, 69, 70)
PIPETRAIN_MULTIPLY_REGISTERS(__half, "f16", 192, 96, 96, 97, 98, 99, 100, 101, 102)

#undef PIPETRAIN_MULTIPLY_SHARED
#undef PIPETRAIN_MULTIPLY_REGISTERS
#undef PIPETRAIN_OUTPUTS16
#undef PIPETRAIN_OUTPUTS32
#undef PIPETRAIN_OUTPUTS64
#undef PIPETRAIN_OUTPUTS96
#undef PIPETRAIN_OUTPUTS128
#undef PIPETRAIN_NAMES16
#undef PIPETRAIN_NAMES32
#undef PIPETRAIN_NAMES64
#undef PIPETRAIN_NAMES96
#undef PIPETRAIN_NAMES128
#undef PIPETRAIN_FLOATS8
#undef PIPETRAIN_FLOATS32
#undef PIPETRAIN_DESCRIPTOR

// Calls body(std::integral_constant<int, 0>()), ..., body(std::integral_constant<int, N - 1>()).
template <int N, class Body>
__device__ __forceinline__ void unrolled(Body body) {
  [&]<int... I>(std::integer_sequence<int, I...>) { (body(std::integral_constant<int, I>{}), ...); }
  (std::make_integer_sequence<int, N>{});
}

}  // namespace pipetrain::cuda::hopper
