#include "ops/cpu/head_norms.hpp"

namespace pipetrain::cpu {
namespace {

// Heads next to each other in the packed matrix, as columns of it and as rows of a norm.
struct HeadColumns {
  std::int64_t first, count, rows, dim;
  Shape shape() const { return {rows, dim}; }
};
HeadColumns query_columns(const SegmentShape& shape) {
  return {0, shape.query_cols(), shape.tokens() * shape.heads, shape.head_dim};
}
HeadColumns key_columns(const SegmentShape& shape) {
  return {shape.query_cols(), shape.kv_heads * shape.head_dim, shape.tokens() * shape.kv_heads, shape.head_dim};
}

// The heads' columns are copied next to each other, so that the norm takes them as rows.
void normalise(Ops& ops, Arena& workspace, const HeadNormsArgs& args, const HeadNorm& norm, const HeadColumns& of) {
  const ArenaScope scope(workspace);
  const Tensor normed = workspace.allocate(norm.input.shape, args.qkv.dtype);
  ops.copy_columns({.source = args.qkv, .source_begin = of.first, .target = norm.input, .count = of.count});
  ops.rms_norm({.x = norm.input.reshaped(of.shape()),
                .weight = norm.weight,
                .eps = args.eps,
                .y = normed.reshaped(of.shape()),
                .inv_rms = norm.inv_rms,
                .offset = args.offset});
  ops.copy_columns({.source = normed, .target = args.qkv, .target_begin = of.first, .count = of.count});
}

struct NormGradient {
  const HeadNorm& norm;
  Tensor dweight;
};
void normalise_back(Ops& ops, Arena& workspace, const HeadNormsBackwardArgs& args, const NormGradient& gradient,
                    const HeadColumns& of) {
  const HeadNorm& norm = gradient.norm;
  const ArenaScope scope(workspace);
  const Tensor grad = workspace.allocate(norm.input.shape, args.dqkv.dtype), input = norm.input.reshaped(of.shape());
  ops.copy_columns({.source = args.dqkv, .source_begin = of.first, .target = grad, .count = of.count});
  ops.rms_norm_backward({.dy = grad.reshaped(of.shape()),
                         .x = input,
                         .weight = norm.weight,
                         .inv_rms = norm.inv_rms,
                         .dx = input,
                         .dweight = gradient.dweight,
                         .offset = args.offset});
  ops.copy_columns({.source = norm.input, .target = args.dqkv, .target_begin = of.first, .count = of.count});
}

}  // namespace

void head_norms(Ops& ops, Arena& workspace, const SegmentShape& shape, const HeadNormsArgs& args) {
  normalise(ops, workspace, args, args.queries, query_columns(shape));
  normalise(ops, workspace, args, args.keys, key_columns(shape));
  if (args.cos_sin) ops.rotary(shape, {.qkv = args.qkv, .cos_sin = *args.cos_sin, .documents = args.documents});
}

void head_norms_backward(Ops& ops, Arena& workspace, const SegmentShape& shape, const HeadNormsBackwardArgs& args) {
  normalise_back(ops, workspace, args, {args.queries, args.dquery_weight}, query_columns(shape));
  normalise_back(ops, workspace, args, {args.keys, args.dkey_weight}, key_columns(shape));
}

}  // namespace pipetrain::cpu
