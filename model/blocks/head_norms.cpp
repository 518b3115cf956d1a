#include "model/blocks/head_norms.hpp"

namespace pipetrain {

void HeadNorms::bind(const BoundTensors& tensors) {
  query_weight_ = tensors.at(TensorRole::query_norm_weight);
  key_weight_ = tensors.at(TensorRole::key_norm_weight);
}

void HeadNorms::forward(const BlockContext& context, const SegmentShape& shape, const ForwardArgs& args, Saved& saved) const {
  const auto allocate = [&](std::int64_t heads) {
    const std::int64_t tokens = args.qkv.rows();
    return Kept{args.memory.allocate({tokens, heads * head_dim_}, context.dtype),
                args.memory.allocate({tokens * heads}, DType::f32)};
  };
  saved.queries = allocate(shape.heads);
  saved.keys = allocate(shape.kv_heads);
  context.ops.head_norms(shape, {.qkv = args.qkv,
                                 .queries = norm_of(query_weight_, saved.queries),
                                 .keys = norm_of(key_weight_, saved.keys),
                                 .eps = eps_,
                                 .offset = offset_,
                                 .cos_sin = args.angles,
                                 .documents = args.angles ? context.position_origins() : std::nullopt});
}

void HeadNorms::backward(const BlockContext& context, const SegmentShape& shape, const Tensor& qkv_grad,
                         const Saved& saved) const {
  const ArenaScope scope(context.workspace);
  context.ops.head_norms_backward(shape, {.dqkv = qkv_grad,
                                          .queries = norm_of(query_weight_, saved.queries),
                                          .keys = norm_of(key_weight_, saved.keys),
                                          .dquery_weight = sums_of(context, query_weight_),
                                          .dkey_weight = sums_of(context, key_weight_),
                                          .offset = offset_});
}

}  // namespace pipetrain
