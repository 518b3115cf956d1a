// The table of model families.
#include <algorithm>
#include <cassert>

#include "model/families/adapter_tensors.hpp"
#include "model/families/family.hpp"
#include "model/families/keys/layer_type_keys.hpp"

namespace pipetrain {

FamilySpec llama_family();
FamilySpec gpt2_family();
FamilySpec qwen2_family();
FamilySpec qwen3_family();
FamilySpec mistral_family();
FamilySpec gemma3_family();
FamilySpec smollm3_family();
FamilySpec granite_family();
FamilySpec olmo2_family();
FamilySpec phi3_family();
FamilySpec seed_oss_family();
FamilySpec mixtral_family();
FamilySpec qwen2_moe_family();
FamilySpec qwen3_moe_family();
FamilySpec olmoe_family();
FamilySpec gpt_oss_family();
FamilySpec deepseek_v2_family();
FamilySpec deepseek_v3_family();

const std::vector<FamilySpec>& families() {
  static const std::vector<FamilySpec> table{
      llama_family(),     gpt2_family(),      qwen2_family(), qwen3_family(),   mistral_family(),     gemma3_family(),
      smollm3_family(),   granite_family(),   olmo2_family(), phi3_family(),    seed_oss_family(),    mixtral_family(),
      qwen2_moe_family(), qwen3_moe_family(), olmoe_family(), gpt_oss_family(), deepseek_v2_family(), deepseek_v3_family()};
  return table;
}

const FamilySpec& spec_of(Family family) {
  const auto is_it = [&](const FamilySpec& spec) { return spec.defaults.family == family; };
  const auto found = std::find_if(families().begin(), families().end(), is_it);
  assert(found != families().end());
  return *found;
}

std::optional<std::int64_t> usual_pad_id(const ModelConfig& config) {
  const auto id = spec_of(config.family).pad_id;
  return id && *id < config.vocabulary ? id : std::nullopt;
}

bool same_model(ModelConfig a, const ModelConfig& b) {
  a.dropout = b.dropout;
  a.router_losses = b.router_losses;
  a.router_rules = b.router_rules;
  a.bos_id = b.bos_id;
  a.pad_id = b.pad_id;
  a.eos_ids = b.eos_ids;
  a.untrained_row = b.untrained_row;
  a.trained = b.trained;
  a.base_form = b.base_form;
  a.preference = b.preference;
  a.adapter = b.adapter;
  a.attention = b.attention;
  a.mtp = b.mtp;
  return a == b;
}

ModelConfig base_model(ModelConfig config) {
  config.trained = {};
  config.adapter = {};
  return config;
}

ModelConfig first_layers(ModelConfig config, std::int64_t layers) {
  config.layers = layers;
  if (!config.layer_types.empty()) config.layer_types.resize(static_cast<std::size_t>(layers));
  drop_idle_windows(config);
  return config;
}

void set_dropout(ModelConfig& config, double rate) {
  for (const auto member : spec_of(config.family).dropouts) config.dropout.*member = rate;
}

std::vector<TensorSpec> block_tensors(const ModelConfig& config, const Block& block) {
  std::vector<TensorSpec> tensors = spec_of(config.family).tensors(config, block);
  const TrainedParts& trained = config.trained;
  const bool trains_block = block.kind == BlockKind::embedding ? trained.embeddings
                            : block.kind == BlockKind::head    ? trained.head
                                                               : trained.blocks;
  const bool has_adapters = config.adapter.exists();
  for (TensorSpec& tensor : tensors) {
    if (tensor.group == ParameterGroup::frozen) continue;  // in every run
    const bool is_trained = has_adapters && is_of_norm(tensor.role) ? config.adapter.norms : trains_block;
    if (!is_trained) tensor.group = ParameterGroup::frozen;
    // One group has all that is trained, so that replicas sum its gradients in one order.
    if (is_trained && has_adapters) tensor.group = ParameterGroup::adapter;
  }
  if (config.base_form != WeightForm::plain) {
    for (TensorSpec& tensor : tensors) {
      if (tensor.group == ParameterGroup::frozen && is_quantisable(tensor.role)) tensor.group = ParameterGroup::quantised;
    }
  }
  if (has_adapters) add_adapter_tensors(config, block, tensors);
  return tensors;
}

TensorSpec output_tensor(const ModelConfig& config, const FamilyNames& names) {
  if (config.classifies())
    return {.role = TensorRole::output_weight,
            .name = classifier_head,
            .shape = {config.outputs(), config.hidden},
            .split = Split::rows};
  return {.role = TensorRole::output_weight,
          .name = config.tied_embeddings ? names.embedding : names.head,
          .shape = {config.vocabulary, config.hidden},
          .split = Split::rows,
          .tied_copy = config.tied_embeddings};
}

TensorSpec norm_tensor(TensorRole role, const std::string& name, std::int64_t size) {
  return {.role = role, .name = name + ".weight", .shape = {size}, .initialisation = Initialisation::ones, .decays = false};
}

TensorSpec bias_tensor(TensorRole role, const std::string& name, std::int64_t size, Split split) {
  return {.role = role,
          .name = name + ".bias",
          .shape = {size},
          .split = split,
          .initialisation = Initialisation::zeros,
          .decays = false};
}

}  // namespace pipetrain
