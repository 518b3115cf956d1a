// DeepSeek-V2 and DeepSeek-V3: latent attention, routed experts in groups and shared ones, dense first layers (DeepSeek-AI
// 2024, "DeepSeek-V2: A Strong, Economical, and Efficient Mixture-of-Experts Language Model" and "DeepSeek-V3 Technical
// Report").
#include <fmt/format.h>

#include <iterator>

#include "model/families/decoder.hpp"
#include "model/families/further_decoder.hpp"
#include "model/families/keys/layer_type_keys.hpp"
#include "model/families/keys/rope_keys.hpp"
#include "model/families/latent_decoder.hpp"
#include "model/families/routed_decoder.hpp"

namespace pipetrain {
namespace {

constexpr ExpertNames deepseek_names{.block = "mlp.",
                                     .gate = "gate_proj",
                                     .up = "up_proj",
                                     .down = "down_proj",
                                     .count = "n_routed_experts",
                                     .shared = "shared_experts"};
constexpr std::int64_t most_dense_layers = 10'000;

// The values that Hugging Face gives absent keys, where the two differ.
struct DeepseekDefaults {
  std::int64_t query_rank = 1536, groups = 1, chosen_groups = 1, first_dense = 0;
};

std::int64_t deepseek_count(const HfConfigReader& config, const char* key, std::int64_t otherwise) {
  return config.has(key) ? config.count(key) : otherwise;
}

// Refuses another value of a key that Hugging Face does not read, which published files have.
void require_deepseek_text(const HfConfigReader& config, const char* key, const std::string& value) {
  if (config.text_or(key, value) != value) config.refuse_value(key, fmt::format("\"{}\", or absent", value));
}
void require_deepseek_number(const HfConfigReader& config, const char* key, double value) {
  if (config.number(key).value_or(value) != value) config.refuse_value(key, fmt::format("{}, or absent", value));
}
void require_deepseek_off(const HfConfigReader& config, const char* key) {
  if (config.flag_or(key, false)) config.refuse_value(key, "false, or absent (what it asks for is not built)");
}

void read_first_dense(const HfConfigReader& config, std::int64_t usual, ModelConfig& model) {
  constexpr const char* key = "first_k_dense_replace";
  const std::int64_t first = config.has(key) ? config.whole(key).value_or(-1) : usual;
  if (first < 0 || first > most_dense_layers) config.refuse_value(key, "a number of layers, 0 or more");
  for (std::int64_t layer = 0; layer < first; ++layer) model.experts.dense_layers.push_back(layer);
}

void read_groups(const HfConfigReader& config, const DeepseekDefaults& usual, ModelConfig& model) {
  RouterScores& scores = model.experts.scores;
  scores.groups = deepseek_count(config, "n_group", usual.groups);
  scores.chosen_groups = deepseek_count(config, "topk_group", usual.chosen_groups);
  if (model.experts.count % scores.groups != 0)
    config.refuse_value("n_group", fmt::format("a divisor of the number of experts ({})", model.experts.count));
  if (scores.chosen_groups > scores.groups)
    config.refuse_value("topk_group", fmt::format("at most the number of groups ({})", scores.groups));
  const std::int64_t eligible = model.experts.count / scores.groups * scores.chosen_groups;
  if (model.experts.chosen > eligible)
    config.refuse_value("num_experts_per_tok", fmt::format("at most the experts of the chosen groups ({})", eligible));
}

// Reads what both have.
void read_deepseek(const HfConfigReader& config, const DeepseekDefaults& usual, ModelConfig& model) {
  read_decoder(config, model);
  refuse_windowed_layers(config);
  read_latent_attention(config, usual.query_rank, model);
  read_rope(config, model);
  require_deepseek_off(config, "attention_bias");
  read_experts(config, deepseek_names, 0, model);
  model.experts.intermediate = config.count("moe_intermediate_size");
  model.experts.shared_intermediate = model.experts.intermediate * config.count("n_shared_experts");
  model.experts.scores.scale = config.positive_or("routed_scaling_factor", model.experts.scores.scale);
  read_first_dense(config, usual.first_dense, model);
  require_deepseek_number(config, "moe_layer_freq", 1);
  // Settings of the makers' own training programs. Hugging Face trains no balancing loss of these models.
  for (const char* const key : {"aux_loss_alpha", "seq_aux", "ep_size"}) config.mentions(key);
}

void write_deepseek(const ModelConfig& config, Json& text) {
  write_decoder(config, text);
  write_latent_attention(config, text);
  text["attention_bias"] = false;
  text["n_routed_experts"] = config.experts.count;
  text["num_experts_per_tok"] = config.experts.chosen;
  if (config.router_losses.balance != 0) text["router_aux_loss_coef"] = config.router_losses.balance;
  text["moe_intermediate_size"] = config.experts.intermediate;
  text["n_shared_experts"] = config.experts.shared_intermediate / config.experts.intermediate;
  text["routed_scaling_factor"] = config.experts.scores.scale;
  text["first_k_dense_replace"] = std::ssize(config.experts.dense_layers);
  text["n_group"] = config.experts.scores.groups;
  text["topk_group"] = config.experts.scores.chosen_groups;
  text["norm_topk_prob"] = config.experts.normalised;
}

void read_deepseek_v2(const HfConfigReader& config, ModelConfig& model) {
  read_deepseek(config, {}, model);
  require_deepseek_off(config, "mlp_bias");
  require_deepseek_off(config, "norm_topk_prob");  // Hugging Face does not read it
  require_deepseek_text(config, "scoring_func", "softmax");
  const std::string method = config.text_or("topk_method", "greedy");
  if (method != "greedy" && method != "group_limited_greedy")
    config.refuse_value("topk_method", "\"greedy\" or \"group_limited_greedy\"");
  for (const char* const key : {"n_group", "topk_group"}) config.mentions(key);
  if (method == "group_limited_greedy") read_groups(config, {}, model);
}

void write_deepseek_v2(const ModelConfig& config, Json& text) {
  write_deepseek(config, text);
  text["topk_method"] = config.experts.scores.groups > 1 ? "group_limited_greedy" : "greedy";
  text["scoring_func"] = "softmax";
}

void read_deepseek_v3(const HfConfigReader& config, ModelConfig& model) {
  const DeepseekDefaults usual{.groups = 8, .chosen_groups = 4, .first_dense = 3};
  read_deepseek(config, usual, model);
  require_deepseek_text(config, "scoring_func", "sigmoid");
  require_deepseek_text(config, "topk_method", "noaux_tc");
  model.experts.normalised = config.flag_or("norm_topk_prob", true);
  model.rope.interleaved = config.flag_or("rope_interleave", true);
  read_groups(config, usual, model);
  read_further_prediction(config, model);
}

void write_deepseek_v3(const ModelConfig& config, Json& text) {
  write_deepseek(config, text);
  text["topk_method"] = "noaux_tc";
  text["scoring_func"] = "sigmoid";
  text["rope_interleave"] = config.rope.interleaved;
  text[further_layers_key] = config.mtp.layers;
}

ModelConfig deepseek_defaults(Family family) {
  ModelConfig config;
  config.family = family;
  config.latent = LatentAttention{};
  config.rope.interleaved = true;
  config.experts.shared_gate = false;
  config.experts.normalised = false;
  return config;
}

ModelConfig deepseek_v3_defaults() {
  ModelConfig config = deepseek_defaults(Family::deepseek_v3);
  config.experts.normalised = true;
  config.experts.scores = {.sigmoid = true, .pairs = true, .scale = 2.5, .corrected = true};
  return config;
}

std::vector<TensorSpec> deepseek_tensors(const ModelConfig& config, const Block& block) {
  if (block.kind == BlockKind::attention) return latent_attention_tensors(config, block);
  if (block.kind == BlockKind::mtp) return further_prediction_tensors(config);
  if (block.kind == BlockKind::head && config.mtp.is_trained()) return head_tensors_of_two(config);
  return routed_decoder_tensors(config, block);
}

}  // namespace

FamilySpec deepseek_v2_family() {
  return {.name = "DeepSeek-V2",
          .model_type = "deepseek_v2",
          .architecture = "DeepseekV2ForCausalLM",
          .classifier = "DeepseekV2ForSequenceClassification",
          .defaults = deepseek_defaults(Family::deepseek_v2),
          .bos_id = 1,
          .eos_id = 2,
          .read = read_deepseek_v2,
          .write = write_deepseek_v2,
          .tensors = deepseek_tensors,
          .experts = &deepseek_names};
}

FamilySpec deepseek_v3_family() {
  return {.name = "DeepSeek-V3",
          .model_type = "deepseek_v3",
          .architecture = "DeepseekV3ForCausalLM",
          .classifier = "DeepseekV3ForSequenceClassification",
          .defaults = deepseek_v3_defaults(),
          .bos_id = 0,
          .eos_id = 1,
          .read = read_deepseek_v3,
          .write = write_deepseek_v3,
          .tensors = deepseek_tensors,
          .experts = &deepseek_names,
          .read_quantization = "fp8"};
}

}  // namespace pipetrain
