// The tensors of a GPT-2, by Hugging Face's names. Its files keep a layer's matrices as [inputs, outputs], and query, key and
// value as one.
#include <fmt/format.h>

#include "model/block_plan.hpp"
#include "model/families/family.hpp"

namespace pipetrain {
namespace {

void plan_norm(const ModelConfig& config, const std::string& name, BlockPlanner& planner) {
  planner.store(GradientKind::replicated, {planner.whole(name + ".weight", {config.hidden})});
  planner.store(GradientKind::replicated, {planner.whole(name + ".bias", {config.hidden})});
}

// A matrix whose outputs are spread over the ranks, each of its `parts` on its own.
void plan_column_parallel(const std::string& name, std::int64_t inputs, std::int64_t outputs, int parts,
                          BlockPlanner& planner) {
  std::vector<Parameter> weights, biases;
  const std::int64_t size = outputs / parts;
  for (int i = 0; i < parts; ++i) {
    weights.push_back(transposed(planner.part(name + ".weight", {inputs, outputs}, 1, i * size, size)));
    biases.push_back(planner.part(name + ".bias", {outputs}, 0, i * size, size));
  }
  planner.store(GradientKind::product, weights);
  planner.store(GradientKind::summed, biases);
}

// A matrix whose inputs are: its bias is added to the ranks' sum, by each rank to its own tokens.
void plan_row_parallel(const std::string& name, std::int64_t inputs, std::int64_t outputs, BlockPlanner& planner) {
  planner.store(GradientKind::product, {transposed(planner.rows(name + ".weight", {inputs, outputs}))});
  planner.store(GradientKind::replicated, {planner.whole(name + ".bias", {outputs})});
}

void plan_embedding(const ModelConfig& config, BlockPlanner& planner) {
  planner.store_vocabulary(GradientKind::summed,
                           planner.rows(names_of(config.family).embedding, {config.vocabulary, config.hidden}));
  planner.store(GradientKind::replicated, {planner.whole("transformer.wpe.weight", {config.max_positions, config.hidden})});
}

void plan_head(const ModelConfig& config, BlockPlanner& planner) {
  plan_norm(config, "transformer.ln_f", planner);
  plan_output_matrix(config, planner);
}

}  // namespace

void plan_gpt2_block(const ModelConfig& config, const Block& block, BlockPlanner& planner) {
  const std::string prefix = fmt::format("{}{}.", names_of(config.family).layers, block.layer);
  const std::int64_t hidden = config.hidden;
  switch (block.kind) {
    case BlockKind::embedding:
      return plan_embedding(config, planner);
    case BlockKind::attention:
      plan_norm(config, prefix + "ln_1", planner);
      plan_column_parallel(prefix + "attn.c_attn", hidden, 3 * hidden, 3, planner);
      return plan_row_parallel(prefix + "attn.c_proj", hidden, hidden, planner);
    case BlockKind::mlp:
      plan_norm(config, prefix + "ln_2", planner);
      plan_column_parallel(prefix + "mlp.c_fc", hidden, config.intermediate, 1, planner);
      return plan_row_parallel(prefix + "mlp.c_proj", config.intermediate, hidden, planner);
    case BlockKind::head:
      return plan_head(config, planner);
  }
}

}  // namespace pipetrain
