#include "ops/cuda/hopper/attention_hopper.hpp"

#include <cmath>

#include "core/buffer.hpp"
#include "ops/cuda/hopper/attention_backward.cuh"

namespace pipetrain::cuda {
namespace {

constexpr std::int64_t keys_of_block = 128;

// A group of query heads is divided where there are too few blocks to give all multiprocessors equal work.
int parts_of(const AttentionShape& shape, const HopperGpu& gpu) {
  const int group = static_cast<int>(shape.heads / shape.kv_heads);
  const std::int64_t blocks = shape.batch * shape.kv_heads * (shape.sequence / keys_of_block);
  int parts = 1;
  while (parts < group && (group % parts != 0 || 10 * blocks * parts < 18 * gpu.multiprocessors)) ++parts;
  return parts;
}

hopper::BackwardView view_of(const AttentionShape& shape, const HopperGpu& gpu, Arena& scratch) {
  hopper::BackwardView view{.batch = static_cast<int>(shape.batch),
                            .sequence = static_cast<int>(shape.sequence),
                            .heads = static_cast<int>(shape.heads),
                            .kv_heads = static_cast<int>(shape.kv_heads),
                            .parts = parts_of(shape, gpu),
                            .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(shape.head_dim)))};
  const std::int64_t tokens = shape.tokens();
  const auto f32 = [&](std::int64_t count) { return static_cast<float*>(scratch.allocate({count}, DType::f32).data); };
  const auto i32 = [&](std::int64_t count) { return static_cast<int*>(scratch.allocate({count}, DType::i32).data); };
  view.largest = reinterpret_cast<unsigned*>(i32(2 * shape.batch * shape.kv_heads));
  view.statistics = f32(3 * tokens * shape.heads);
  view.query_sums = i32(tokens * shape.heads * shape.head_dim);
  if (view.parts > 1) view.key_sums = f32(view.parts * tokens * shape.kv_heads * 2 * shape.head_dim);
  view.packed_cols = shape.packed_cols();
  return view;
}

}  // namespace

HopperGpu hopper_gpu(int device) {
  int major = 0, minor = 0, multiprocessors = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  return {major == 9 && minor == 0, multiprocessors};
}

bool takes_hopper_attention(const AttentionShape& shape, const HopperGpu& gpu) {
  return gpu.available && (shape.head_dim == 64 || shape.head_dim == 128) && shape.sequence % keys_of_block == 0;
}

std::size_t hopper_attention_backward_scratch(const AttentionShape& shape, const HopperGpu& gpu) {
  Arena measuring = Arena::measuring();
  view_of(shape, gpu, measuring);
  return measuring.used();
}

void hopper_attention_backward(cudaStream_t stream, const AttentionShape& shape, const AttentionBackwardArgs& args,
                               const HopperGpu& gpu, void* scratch) {
  Arena places(scratch, hopper_attention_backward_scratch(shape, gpu), "attention's backward");
  hopper::BackwardView view = view_of(shape, gpu, places);
  view.dqkv = args.dqkv.data;
  hopper::run_backward(stream, view, args, gpu.multiprocessors);
}

}  // namespace pipetrain::cuda
