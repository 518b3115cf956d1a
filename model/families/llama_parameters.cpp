// The tensors of a Llama, by Hugging Face's names.
#include <fmt/format.h>

#include "model/block_plan.hpp"
#include "model/families/family.hpp"

namespace pipetrain {
namespace {

void plan_attention(const ModelConfig& config, const std::string& prefix, BlockPlanner& planner) {
  const std::int64_t hidden = config.hidden;
  const std::int64_t query = config.heads * config.head_dim, key_value = config.kv_heads * config.head_dim;
  planner.store(GradientKind::replicated, {planner.whole(prefix + "input_layernorm.weight", {hidden})});
  planner.store(GradientKind::product, {planner.rows(prefix + "self_attn.q_proj.weight", {query, hidden}),
                                        planner.rows(prefix + "self_attn.k_proj.weight", {key_value, hidden}),
                                        planner.rows(prefix + "self_attn.v_proj.weight", {key_value, hidden})});
  planner.store(GradientKind::product, {planner.columns(prefix + "self_attn.o_proj.weight", {hidden, query})});
}

void plan_mlp(const ModelConfig& config, const std::string& prefix, BlockPlanner& planner) {
  const std::int64_t hidden = config.hidden, inner = config.intermediate;
  planner.store(GradientKind::replicated, {planner.whole(prefix + "post_attention_layernorm.weight", {hidden})});
  planner.store(GradientKind::product, {planner.rows(prefix + "mlp.gate_proj.weight", {inner, hidden}),
                                        planner.rows(prefix + "mlp.up_proj.weight", {inner, hidden})});
  planner.store(GradientKind::product, {planner.columns(prefix + "mlp.down_proj.weight", {hidden, inner})});
}

void plan_head(const ModelConfig& config, BlockPlanner& planner) {
  planner.store(GradientKind::replicated, {planner.whole("model.norm.weight", {config.hidden})});
  plan_output_matrix(config, planner);
}

}  // namespace

void plan_llama_block(const ModelConfig& config, const Block& block, BlockPlanner& planner) {
  const FamilyNames names = names_of(config.family);
  const std::string prefix = fmt::format("{}{}.", names.layers, block.layer);
  switch (block.kind) {
    case BlockKind::embedding:
      return planner.store_vocabulary(GradientKind::summed, planner.rows(names.embedding, {config.vocabulary, config.hidden}));
    case BlockKind::attention:
      return plan_attention(config, prefix, planner);
    case BlockKind::mlp:
      return plan_mlp(config, prefix, planner);
    case BlockKind::head:
      return plan_head(config, planner);
  }
}

}  // namespace pipetrain
