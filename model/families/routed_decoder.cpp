#include "model/families/routed_decoder.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "model/families/decoder.hpp"

namespace pipetrain {
namespace {

constexpr std::int64_t most_experts = 65'536;

// The gate and up matrices of an expert, or its down matrix.
TensorSpec expert_matrix(TensorRole role, const std::string& name, std::int64_t outputs, std::int64_t inputs) {
  const bool ends = role == TensorRole::expert_out_weight || role == TensorRole::shared_out_weight;
  return {.role = role, .name = name + ".weight", .shape = {outputs, inputs}, .split = ends ? Split::columns : Split::rows};
}

void add_shared_expert(const ModelConfig& config, const std::string& prefix, const ExpertNames& names,
                       std::vector<TensorSpec>& tensors) {
  const std::int64_t inner = config.experts.shared_intermediate, hidden = config.hidden;
  const std::string expert = fmt::format("{}{}.", prefix, names.shared);
  tensors.push_back(expert_matrix(TensorRole::shared_in_weight, expert + names.gate, inner, hidden));
  tensors.push_back(expert_matrix(TensorRole::shared_in_weight, expert + names.up, inner, hidden));
  tensors.push_back(expert_matrix(TensorRole::shared_out_weight, expert + names.down, hidden, inner));
  if (config.experts.shared_gate)
    tensors.push_back(
        {.role = TensorRole::shared_gate_weight, .name = prefix + "shared_expert_gate.weight", .shape = {1, hidden}});
}

std::vector<TensorSpec> experts_tensors(const ModelConfig& config, const std::string& layer, const ExpertNames& names) {
  const std::int64_t inner = config.experts.intermediate, hidden = config.hidden, count = config.experts.count;
  const std::string prefix = layer + names.block;
  const auto expert = [&](std::int64_t number) { return fmt::format("{}experts.{}.", prefix, number); };
  std::vector<TensorSpec> tensors{
      norm_tensor(TensorRole::norm_weight, layer + "post_attention_layernorm", hidden),
      {.role = TensorRole::router_weight, .name = fmt::format("{}{}.weight", prefix, names.router), .shape = {count, hidden}}};
  const bool has_biases = config.experts.biases;
  if (has_biases) {
    tensors.push_back(bias_tensor(TensorRole::router_bias, prefix + names.router, count, Split::none));
    tensors.back().initialisation = Initialisation::normal;
  }
  if (config.experts.scores.corrected)
    tensors.push_back({.role = TensorRole::router_correction,
                       .name = fmt::format("{}{}.e_score_correction_bias", prefix, names.router),
                       .shape = {count},
                       .initialisation = Initialisation::zeros,
                       .decays = false,
                       .group = ParameterGroup::frozen});
  const auto add = [&](std::int64_t number, TensorSpec matrix) {
    matrix.expert = number;
    tensors.push_back(std::move(matrix));
  };
  for (std::int64_t number = 0; number < count; ++number)
    for (const char* const name : {names.gate, names.up})
      add(number, expert_matrix(TensorRole::expert_in_weight, expert(number) + name, inner, hidden));
  for (std::int64_t number = 0; has_biases && number < count; ++number)
    for (const char* const name : {names.gate, names.up})
      add(number, bias_tensor(TensorRole::expert_in_bias, expert(number) + name, inner, Split::rows));
  for (std::int64_t number = 0; number < count; ++number)
    add(number, expert_matrix(TensorRole::expert_out_weight, expert(number) + names.down, hidden, inner));
  for (std::int64_t number = 0; has_biases && number < count; ++number)
    add(number, bias_tensor(TensorRole::expert_out_bias, expert(number) + names.down, hidden, Split::rows));
  if (config.experts.shared_intermediate > 0) add_shared_expert(config, prefix, names, tensors);
  return tensors;
}

}  // namespace

void read_experts(const HfConfigReader& config, const ExpertNames& names, double usual_balance, ModelConfig& model) {
  // transformers writes either key for the same number.
  const char* const other = std::string_view(names.count) == "num_experts" ? "num_local_experts" : "num_experts";
  Experts& experts = model.experts;
  experts.count = config.count(config.has(other) && !config.has(names.count) ? other : names.count, most_experts);
  experts.chosen = config.count("num_experts_per_tok");
  if (experts.chosen > experts.count)
    config.refuse_value("num_experts_per_tok", fmt::format("at most the number of experts ({})", experts.count));
  const double balance = config.number("router_aux_loss_coef").value_or(usual_balance);
  if (balance < 0) config.refuse_value("router_aux_loss_coef", "a number of at least 0");
  model.router_losses.balance = balance;
  config.flag_or("output_router_logits", false);  // the balancing loss is trained in any case
}

void write_experts(const ModelConfig& config, const ExpertNames& names, Json& text) {
  text[names.count] = config.experts.count;
  text["num_experts_per_tok"] = config.experts.chosen;
  text["router_aux_loss_coef"] = config.router_losses.balance;
}

void read_routed_layers(const HfConfigReader& config, ModelConfig& model) {
  Experts& experts = model.experts;
  if (config.has("decoder_sparse_step")) experts.step = config.count("decoder_sparse_step");
  if (!config.has("mlp_only_layers")) return;
  const Json& layers = config.value("mlp_only_layers");
  const auto refuse = [&] {
    config.refuse_value("mlp_only_layers", fmt::format("a list of layers from 0 to {}", model.layers - 1));
  };
  if (!layers.is_array()) refuse();
  for (const Json& layer : layers) {
    const auto number = layer.whole();
    if (!number || *number < 0 || *number >= model.layers) refuse();
    experts.dense_layers.push_back(*number);
  }
}

void write_routed_layers(const ModelConfig& config, Json& text) {
  text["decoder_sparse_step"] = config.experts.step;
  text["mlp_only_layers"] = config.experts.dense_layers;
}

std::vector<TensorSpec> routed_decoder_tensors(const ModelConfig& config, const Block& block) {
  if (block.kind != BlockKind::experts) return decoder_tensors(config, block);
  return experts_tensors(config, fmt::format("{}{}.", decoder_names.layers, block.layer), *spec_of(config.family).experts);
}

}  // namespace pipetrain
