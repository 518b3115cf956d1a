#include "ops/cuda/hopper/attention_hopper.hpp"

#include <cmath>

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

// Divides memory; at null it counts the bytes.
class Places {
 public:
  explicit Places(void* memory) : begin_(static_cast<char*>(memory)) {}
  template <class T>
  T* take(std::int64_t count) {
    char* const at = begin_ == nullptr ? nullptr : begin_ + bytes_;
    bytes_ += (static_cast<std::size_t>(count) * sizeof(T) + 255) / 256 * 256;
    return reinterpret_cast<T*>(at);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  char* begin_;
  std::size_t bytes_ = 0;
};

hopper::BackwardView view_of(const AttentionShape& shape, const HopperGpu& gpu, Places& places) {
  hopper::BackwardView view{.batch = static_cast<int>(shape.batch),
                            .sequence = static_cast<int>(shape.sequence),
                            .heads = static_cast<int>(shape.heads),
                            .kv_heads = static_cast<int>(shape.kv_heads),
                            .parts = parts_of(shape, gpu),
                            .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(shape.head_dim)))};
  const std::int64_t tokens = shape.tokens();
  view.largest = places.take<unsigned>(2 * shape.batch * shape.kv_heads);
  view.statistics = places.take<float>(3 * tokens * shape.heads);
  view.query_sums = places.take<int>(tokens * shape.heads * shape.head_dim);
  if (view.parts > 1) view.key_sums = places.take<float>(view.parts * tokens * shape.kv_heads * 2 * shape.head_dim);
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
  Places places(nullptr);
  view_of(shape, gpu, places);
  return places.bytes();
}

void hopper_attention_backward(cudaStream_t stream, const AttentionShape& shape, const AttentionBackwardArgs& args,
                               const HopperGpu& gpu, void* scratch) {
  Places places(scratch);
  hopper::BackwardView view = view_of(shape, gpu, places);
  view.dqkv = args.dqkv.data;
  hopper::run_backward(stream, view, args, gpu.multiprocessors);
}

}  // namespace pipetrain::cuda
