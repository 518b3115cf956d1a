#include "ops/cuda/gemm/gemm_choice.hpp"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <span>

namespace pipetrain::cuda {
namespace {

struct Choice {
  GemmShape shape;
  int rank;
  std::optional<GemmShape> of{};
};

using enum Product;
constexpr DType bf16 = DType::bf16, f32 = DType::f32, e4m3 = DType::e4m3, e5m2 = DType::e5m2;

// Printed by bench_gpu_gemm. Measured on an H200 (132 multiprocessors) with algorithms in turns, before each ran alone under a
// load that lasts (gemm_timing.cpp).
constexpr std::size_t measured_version = 130100;
constexpr int measured_multiprocessors = 132;
const Choice choices[] = {
    {{2048, 7168, 4096, dx, bf16, bf16}, 1},  {{4096, 4096, 3072, dx, bf16, bf16}, 3},
    {{4096, 14336, 4096, y, bf16, bf16}, 4},  {{4096, 64128, 4096, y, bf16, bf16}, 5},
    {{4096, 4096, 2048, y, bf16, bf16}, 5},   {{4096, 4096, 7168, y, bf16, bf16}, 5},
    {{4096, 7168, 4096, dx, bf16, bf16}, 3},  {{3072, 4096, 4096, dw, bf16, f32}, 6},
    {{14336, 4096, 4096, dw, bf16, f32}, 3},  {{64128, 4096, 4096, dw, bf16, f32}, 6},
    {{4096, 2048, 4096, dw, bf16, f32}, 3},   {{4096, 7168, 4096, dw, bf16, f32}, 3},
    {{4096, 11008, 4096, dw, bf16, f32}, 5},  {{2048, 6144, 4096, y, bf16, bf16}, 7},
    {{2048, 11008, 4096, y, bf16, bf16}, 1},  {{2048, 16000, 4096, y, bf16, bf16}, 5},
    {{2048, 5504, 4096, dx, bf16, bf16}, 6},  {{4096, 11008, 4096, y, bf16, bf16}, 5},
    {{4096, 16000, 4096, y, bf16, bf16}, 6},  {{4096, 5504, 4096, dx, bf16, bf16}, 4},
    {{11008, 4096, 4096, dw, bf16, f32}, 6},  {{16000, 4096, 4096, dw, bf16, f32}, 6},
    {{4096, 5504, 4096, dw, bf16, f32}, 4},   {{1024, 3072, 4096, y, bf16, bf16}, 3},
    {{1024, 4096, 1024, y, bf16, bf16}, 2},   {{1024, 4096, 2752, y, bf16, bf16}, 2},
    {{4096, 5504, 4096, y, bf16, bf16}, 1},   {{4096, 8000, 4096, y, bf16, bf16}, 4},
    {{4096, 4096, 1024, y, bf16, bf16}, 2},   {{4096, 4096, 2752, y, bf16, bf16}, 5},
    {{4096, 2752, 4096, dx, bf16, bf16}, 6},  {{5504, 4096, 4096, dw, bf16, f32}, 4},
    {{8000, 4096, 4096, dw, bf16, f32}, 6},   {{4096, 1024, 4096, dw, bf16, f32}, 2},
    {{4096, 2752, 4096, dw, bf16, f32}, 6},   {{2048, 8000, 4096, y, bf16, bf16}, 7},
    {{2048, 4096, 1024, y, bf16, bf16}, 3},   {{3072, 4096, 2048, dw, bf16, f32}, 6},
    {{5504, 4096, 2048, dw, bf16, f32}, 3},   {{8000, 4096, 2048, dw, bf16, f32}, 5},
    {{4096, 1024, 2048, dw, bf16, f32}, 2},   {{4096, 2752, 2048, dw, bf16, f32}, 6},
    {{4096, 3072, 2048, y, bf16, bf16}, 7},   {{4096, 16384, 2048, y, bf16, bf16}, 5},
    {{4096, 128256, 2048, y, bf16, bf16}, 5}, {{4096, 2048, 128256, dx, bf16, bf16}, 1},
    {{4096, 8192, 2048, dx, bf16, bf16}, 5},  {{3072, 2048, 4096, dw, bf16, f32}, 3},
    {{128256, 2048, 4096, dw, bf16, f32}, 5}, {{2048, 2048, 4096, dw, bf16, f32}, 7},
    {{2048, 8192, 4096, dw, bf16, f32}, 3},   {{16384, 3072, 2048, y, bf16, bf16}, 6},
    {{16384, 16384, 2048, y, bf16, bf16}, 7}, {{16384, 128256, 2048, y, bf16, bf16}, 7},
    {{16384, 2048, 2048, y, bf16, bf16}, 4},  {{16384, 2048, 2048, dx, bf16, bf16}, 4},
    {{16384, 8192, 2048, dx, bf16, bf16}, 6}, {{128256, 2048, 16384, dw, bf16, f32}, 1},
    {{2048, 1536, 2048, y, bf16, bf16}, 4},   {{2048, 2048, 1536, dx, bf16, bf16}, 2},
    {{2048, 8192, 2048, y, bf16, bf16}, 3},   {{2048, 64128, 2048, y, bf16, bf16}, 6},
    {{2048, 2048, 1024, y, bf16, bf16}, 2},   {{4096, 8192, 2048, y, bf16, bf16}, 3},
    {{4096, 64128, 2048, y, bf16, bf16}, 6},  {{4096, 2048, 1024, y, bf16, bf16}, 3},
    {{4096, 1024, 2048, dx, bf16, bf16}, 2},  {{4096, 4096, 2048, dx, bf16, bf16}, 2},
    {{1536, 2048, 4096, dw, bf16, f32}, 4},   {{8192, 2048, 4096, dw, bf16, f32}, 3},
    {{64128, 2048, 4096, dw, bf16, f32}, 4},  {{2048, 4096, 4096, dw, bf16, f32}, 1},
    {{4096, 5120, 2048, y, bf16, bf16}, 3},   {{4096, 151936, 2048, y, bf16, bf16}, 5},
    {{4096, 6144, 2048, y, bf16, bf16}, 4},   {{4096, 50304, 2048, y, bf16, bf16}, 6},
    {{4096, 2048, 50304, dx, bf16, bf16}, 1}, {{4096, 6144, 4096, y, e4m3, bf16}, 4},
    {{4096, 4096, 4096, y, e4m3, bf16}, 5},   {{4096, 4096, 4096, y, e5m2, bf16}, 3},
    {{4096, 4096, 4096, y, e5m2, f32}, 1},    {{4096, 28672, 4096, y, e4m3, bf16}, 5},
    {{4096, 4096, 14336, y, e4m3, bf16}, 5},  {{4096, 12288, 4096, y, e4m3, bf16}, 4},
    {{4096, 22016, 4096, y, e4m3, bf16}, 5},  {{4096, 3072, 2048, y, e4m3, bf16}, 7},
    {{4096, 2048, 3072, y, e5m2, bf16}, 4},   {{3072, 2048, 4096, y, e5m2, f32}, 3},
    {{4096, 2048, 2048, y, e4m3, bf16}, 3},   {{4096, 16384, 2048, y, e4m3, bf16}, 5},
    {{16384, 2048, 4096, y, e5m2, f32}, 6},   {{16384, 3072, 2048, y, e4m3, bf16}, 6},
    {{16384, 2048, 2048, y, e4m3, bf16}, 4},  {{16384, 16384, 2048, y, e4m3, bf16}, 7},
    {{16384, 2048, 8192, y, e4m3, bf16}, 4},
};
// Measured on an H100, which has as many multiprocessors, under a load that lasts: Llama-3-8B, Llama-2-7B, Qwen3-8B and
// Qwen2.5-7B, 4,096 tokens. The first two rows, of GPT-OSS-20B, were measured in turns.
const Choice h100_choices[] = {
    {{4096, 201088, 2880, y, bf16, bf16}, 5}, {{4096, 2880, 4096, y, bf16, bf16}, 3},
    {{4096, 28672, 4096, y, bf16, bf16}, 5},  {{4096, 128256, 4096, y, bf16, bf16}, 5},
    {{128256, 4096, 4096, dw, bf16, f32}, 1}, {{4096, 14336, 4096, dw, bf16, f32}, 1},
    {{2048, 4096, 3072, dx, bf16, bf16}, 1},  {{2048, 4096, 14336, dx, bf16, bf16}, 1},
    {{2048, 64128, 4096, y, bf16, bf16}, 2},  {{2048, 4096, 64128, dx, bf16, bf16}, 1},
    {{4096, 24576, 4096, y, bf16, bf16}, 4},  {{4096, 151936, 4096, y, bf16, bf16}, 5},
    {{4096, 12288, 4096, dx, bf16, bf16}, 6}, {{151936, 4096, 4096, dw, bf16, f32}, 1},
    {{4096, 37888, 3584, y, bf16, bf16}, 6},  {{4096, 3584, 37888, dx, bf16, bf16}, 3},
    {{4096, 152064, 3584, y, bf16, bf16}, 1}, {{4096, 3584, 3584, y, bf16, bf16}, 6},
    {{4096, 3584, 3584, dx, bf16, bf16}, 5},  {{4096, 3584, 18944, y, bf16, bf16}, 7},
    {{4608, 3584, 4096, dw, bf16, f32}, 1},   {{152064, 3584, 4096, dw, bf16, f32}, 1},
    {{3584, 18944, 4096, dw, bf16, f32}, 1},  {{4096, 12288, 4096, y, bf16, bf16}, 7},
    {{4096, 22016, 4096, y, bf16, bf16}, 2},  {{4096, 32000, 4096, y, bf16, bf16}, 5},
    {{4096, 11008, 4096, dx, bf16, bf16}, 7}, {{32000, 4096, 4096, dw, bf16, f32}, 3},
};
// Measured so too: a model's frozen matrices, whose products are added to those of their adapters, and the adapters, of
// rank 16. The two products of the head were measured in turns.
const Choice adapted_choices[] = {
    {{8192, 128256, 4096, y, bf16, bf16}, 3}, {{8192, 4096, 128256, dx, bf16, bf16}, 1},
    {{8192, 6144, 4096, y, bf16, bf16}, 4},   {{8192, 6144, 48, y, bf16, bf16}, 4},
    {{8192, 48, 6144, dx, bf16, bf16}, 1},    {{8192, 4096, 48, dx, bf16, bf16}, 2},
    {{6144, 48, 8192, dw, bf16, f32}, 3},     {{48, 4096, 8192, dw, bf16, f32}, 1},
    {{8192, 4096, 16, y, bf16, bf16}, 5},     {{8192, 16, 4096, dx, bf16, bf16}, 4},
    {{8192, 4096, 16, dx, bf16, bf16}, 2},    {{4096, 16, 8192, dw, bf16, f32}, 1},
    {{16, 4096, 8192, dw, bf16, f32}, 1},     {{8192, 28672, 4096, y, bf16, bf16}, 6},
    {{8192, 4096, 28672, dx, bf16, bf16}, 1}, {{8192, 32, 28672, dx, bf16, bf16}, 3},
    {{8192, 4096, 32, dx, bf16, bf16}, 1},    {{8192, 4096, 14336, y, bf16, bf16}, 5},
    {{8192, 14336, 4096, dx, bf16, bf16}, 2}, {{8192, 14336, 16, dx, bf16, bf16}, 6},
};
// Measured for models with biases, in turns. Three shapes use an algorithm that only another shape's
// list has; it was found by trying the lists of all these products on each, under a sustained load
// (bench/results/gpu.md).
const Choice biased_choices[] = {
    // GPT-2 124M, 16 sequences of 1,024
    {{16384, 2304, 768, y, bf16, bf16, true}, 6, GemmShape{8192, 1600, 6400, y, bf16, bf16}},
    {{16384, 3072, 768, y, bf16, bf16}, 6},
    {{16384, 50304, 768, y, bf16, bf16}, 6},
    {{16384, 768, 2304, dx, bf16, bf16}, 7},
    {{16384, 768, 768, dx, bf16, bf16}, 7},
    {{16384, 3072, 768, dx, bf16, bf16}, 6},
    {{2304, 768, 16384, dw, bf16, f32}, 2, GemmShape{1600, 6400, 8192, dw, bf16, f32}},
    {{768, 768, 16384, dw, bf16, f32}, 1},
    {{3072, 768, 16384, dw, bf16, f32}, 1},
    {{768, 3072, 16384, dw, bf16, f32}, 1},
    {{50304, 768, 16384, dw, bf16, f32}, 6},
    // GPT-2 XL, 8 sequences of 1,024
    {{8192, 4800, 1600, y, bf16, bf16, true}, 2, GemmShape{8192, 4800, 1600, y, bf16, bf16}},
    {{8192, 6400, 1600, y, bf16, bf16}, 1},
    {{8192, 1600, 6400, y, bf16, bf16, true}, 3},
    {{8192, 50304, 1600, y, bf16, bf16}, 5},
    {{8192, 1600, 4800, dx, bf16, bf16}, 2},
    {{8192, 1600, 1600, dx, bf16, bf16}, 2},
    {{8192, 1600, 6400, dx, bf16, bf16}, 2},
    {{8192, 6400, 1600, dx, bf16, bf16}, 6},
    {{8192, 1600, 50304, dx, bf16, bf16}, 2},
    {{1600, 6400, 8192, dw, bf16, f32}, 1},
    {{50304, 1600, 8192, dw, bf16, f32}, 7},
};

// Returns the same product in the run's type.
std::optional<GemmShape> in_type_of(const GemmShape& asked, std::optional<GemmShape> measured) {
  if (!measured) return std::nullopt;
  measured->in = asked.in;
  if (size_of(asked.out) == 2) measured->out = asked.out;
  return measured;
}

}  // namespace

GemmChoice gemm_choice(const GemmShape& shape, int device) {
  int multiprocessors = 0, major = 0;
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (cublasLtGetVersion() != measured_version || multiprocessors != measured_multiprocessors || major != 9) return {};
  // fp16 has the same list of algorithms as bf16, and the same algorithms are fast.
  GemmShape measured = shape;
  for (DType* dtype : {&measured.in, &measured.out})
    if (*dtype == DType::f16) *dtype = DType::bf16;
  for (const auto table :
       std::initializer_list<std::span<const Choice>>{choices, h100_choices, adapted_choices, biased_choices}) {
    const auto found = std::find_if(table.begin(), table.end(), [&](const Choice& one) { return one.shape == measured; });
    if (found != table.end()) return {found->rank, in_type_of(shape, found->of)};
  }
  return {};
}

}  // namespace pipetrain::cuda
