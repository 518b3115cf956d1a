#include "model/attention/self_attention.hpp"

namespace pipetrain {

SelfAttention::SelfAttention(const ModelConfig& config, const BlockParameters& parameters, const TensorParallel& tp,
                             std::optional<TensorRole> out_bias)
    : attention_(config, parameters.block.layer, tp),
      out_(config, {TensorRole::attention_out_weight, out_bias},
           {dropout_name(parameters.block.layer, "attention"), config.dropout.residual},
           LowRankAdapter::of(config, parameters.block, TensorRole::attention_out_weight, tp)) {}

void SelfAttention::forward(const BlockContext& context, const ForwardArgs& args, Arena& memory, Saved& saved_base) const {
  auto& saved = static_cast<HeadsSaved&>(saved_base);
  const ArenaScope scope(context.workspace);
  const KeptMemory kept = forward_memory(context, memory);
  attend(context, args.input, kept, saved);
  out_.forward(
      context,
      {.input = saved.attention.heads, .residual = args.input, .output = args.output, .kept = kept.remade, .results = &memory},
      saved.out);
}

SliceKeys SelfAttention::slice_keys(const BlockContext& context, const HeadsSaved& saved) {
  SliceKeys keys;
  if (context.slice != nullptr)
    for (const Saved* earlier : context.slice->earlier) keys.push_back(static_cast<const HeadsSaved*>(earlier)->attention.qkv);
  keys.push_back(saved.attention.qkv);
  return keys;
}

Tensor SelfAttention::angles(const BlockContext& context, const Tensor& table) {
  return context.slice == nullptr || context.documents ? table : table.row_range(context.slice->first, table.rows());
}

}  // namespace pipetrain
