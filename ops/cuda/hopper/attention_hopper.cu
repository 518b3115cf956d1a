// Divides attention's backward into the blocks and parts of the Hopper kernels, and lays out their shared results in scratch.
//
//   q, dq       [batch queries, Hq D], or columns of a packed matrix
//   kv, dkv     [batch R, Hkv (D + V)], or columns of a packed matrix
//   dout, out   [batch queries, Hq V]
//   statistics  [batch, Hq, query tiles, 3 or 4, tile]: log-sum-exp, delta, 1 / |dout|, and the first key that is seen
//   query_sums  [batch, Hq, query tiles, tile columns]: dQ as integers, in boxes of 64 x 64
//   key_sums    [parts, batch keys, Hkv (D + V)]: dK and dV of each part of a group
//
// attention_preprocess.cu writes the statistics and zeroes query_sums, attention_backward.cu adds to query_sums
// and key_sums, and attention_postprocess.cu converts these into dq and dkv.
#include "ops/cuda/hopper/attention_hopper.hpp"

#include "core/buffer.hpp"
#include "ops/cuda/hopper/attention_backward.cuh"

namespace pipetrain::cuda {
namespace {

std::int64_t rounded_up(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }
std::int64_t key_blocks(const SegmentShape& shape) {
  const std::int64_t block = hopper_attention_keys(shape.head_dim);
  return rounded_up(shape.keys, block) / block;
}

// A group of query heads is divided if there are too few blocks to give all multiprocessors equal work. Latent attention, whose
// values are narrower, has as many key heads as query heads.
int parts_of(const SegmentShape& shape, const HopperGpu& gpu) {
  if (shape.value_dim() != shape.head_dim) return 1;
  const int group = static_cast<int>(shape.heads / shape.kv_heads);
  const std::int64_t blocks = shape.batch * shape.kv_heads * key_blocks(shape);
  int parts = 1;
  while (parts < group && (group % parts != 0 || 10 * blocks * parts < 18 * gpu.multiprocessors)) ++parts;
  return parts;
}

// Halves the section until its data fits the cache, as long as it has a block for every multiprocessor.
int section_of(const SegmentShape& shape, int parts) {
  constexpr std::int64_t most_bytes = 20 << 20, fewest_blocks = 128;
  // A query head's queries, their gradients and sums, and its key head's keys and values.
  const std::int64_t bytes = shape.head_dim * (8 * shape.queries + 4 * shape.keys), blocks = key_blocks(shape);
  std::int64_t section = shape.batch * shape.kv_heads * parts;
  while (section % 2 == 0 && section * bytes > most_bytes && section / 2 * blocks >= fewest_blocks) section /= 2;
  return static_cast<int>(section);
}

hopper::BackwardView view_of(const SegmentShape& shape, const AttentionBackwardArgs& args, const HopperGpu& gpu,
                             Arena& scratch) {
  hopper::BackwardView view{.batch = static_cast<int>(shape.batch),
                            .queries = static_cast<int>(shape.queries),
                            .keys = static_cast<int>(shape.keys),
                            .heads = static_cast<int>(shape.heads),
                            .kv_heads = static_cast<int>(shape.kv_heads),
                            .sum_rows = static_cast<int>(shape.keys),
                            .parts = parts_of(shape, gpu),
                            .first_query = static_cast<int>(shape.first_query - shape.first_key),
                            .window = shape.is_windowed() ? static_cast<int>(shape.window) : 0,
                            .scale = static_cast<float>(shape.exact_score_scale())};
  view.section = section_of(shape, view.parts);
  const std::int64_t queries = shape.batch * rounded_up(shape.queries, hopper_attention_queries(shape.head_dim));
  const std::int64_t keys = shape.batch * shape.keys;
  const auto f32 = [&](std::int64_t count) { return static_cast<float*>(scratch.allocate({count}, DType::f32).data); };
  const auto i32 = [&](std::int64_t count) { return static_cast<int*>(scratch.allocate({count}, DType::i32).data); };
  const std::int64_t largest = 2 * shape.batch * shape.kv_heads;
  view.largest = reinterpret_cast<unsigned*>(i32(largest + 1));
  view.tickets = reinterpret_cast<int*>(view.largest) + largest;
  if (args.documents) view.documents = static_cast<const int*>(args.documents->data);
  if (view.has_begins()) view.ends = i32(shape.batch * key_blocks(shape));
  view.statistics = f32((view.has_begins() ? 4 : 3) * queries * shape.heads);
  view.query_sums = i32(queries * shape.heads * hopper_attention_columns(shape.head_dim));
  if (view.parts > 1) view.key_sums = f32(view.parts * keys * shape.kv_heads * 2 * shape.head_dim);
  return view;
}

}  // namespace

std::size_t hopper_attention_backward_scratch(const SegmentShape& shape, const AttentionBackwardArgs& args,
                                              const HopperGpu& gpu) {
  Arena measuring = Arena::measuring();
  view_of(shape, args, gpu, measuring);
  return measuring.used();
}

void hopper_attention_backward(cudaStream_t stream, const SegmentShape& shape, const AttentionBackwardArgs& args,
                               const HopperGpu& gpu, void* scratch) {
  Arena places(scratch, hopper_attention_backward_scratch(shape, args, gpu), "attention's backward");
  hopper::BackwardView view = view_of(shape, args, gpu, places);
  view.kv_rows = static_cast<int>(args.kv.rows() / shape.batch);
  view.dkv_rows = static_cast<int>(args.dkv.rows() / shape.batch);
  view.dq = args.dq.data;
  view.sums_dq = args.dq.dtype == DType::f32, view.adds_dq = args.accumulate_dq == Accumulate::yes;
  view.dq_cols = args.dq.cols();
  if (args.dkv.dtype == DType::f32) {
    view.added = static_cast<float*>(args.dkv.data);
    if (view.parts == 1) view.key_sums = view.added, view.sum_rows = view.dkv_rows;
  } else {
    const std::int64_t first_col = args.dkv.cols() - shape.key_value_cols();
    view.dkv = static_cast<char*>(args.dkv.data) + static_cast<std::size_t>(first_col) * size_of(args.dkv.dtype);
    view.dkv_cols = args.dkv.cols();
  }
  view.cos_sin = rotates_in_hopper(shape, args) ? static_cast<const float*>(args.cos_sin->data) : nullptr;
  hopper::run_backward(stream, view, args, shape.head_dim, gpu.multiprocessors);
}

}  // namespace pipetrain::cuda
