#include "model/families/latent_decoder.hpp"

#include <fmt/format.h>

#include "model/families/decoder.hpp"

namespace pipetrain {
namespace {

// A matrix whose rows are spread over the tensor-parallel ranks by heads; of_head: the rows of one.
TensorSpec heads_matrix(TensorRole role, const std::string& name, const Shape& shape, std::int64_t of_head) {
  return {.role = role, .name = name + ".weight", .shape = shape, .split = Split::rows, .indivisible = of_head};
}

}  // namespace

void read_latent_attention(const HfConfigReader& config, std::int64_t usual_query_rank, ModelConfig& model) {
  LatentAttention& sizes = model.latent.emplace();
  constexpr const char* query_rank = "q_lora_rank";
  if (config.has(query_rank)) sizes.query_rank = config.count(query_rank);
  if (!config.mentions(query_rank)) sizes.query_rank = usual_query_rank;
  sizes.key_value_rank = config.count("kv_lora_rank");
  sizes.plain = config.count("qk_nope_head_dim");
  sizes.rotated = config.count("qk_rope_head_dim");
  sizes.value = config.count("v_head_dim");
  if (sizes.rotated % 2 != 0) config.refuse_value("qk_rope_head_dim", "even, as rotary embedding needs");
  if (model.kv_heads != model.heads)
    config.refuse_value("num_key_value_heads", fmt::format("num_attention_heads ({}), or absent", model.heads));
  const auto require_size = [&](const char* key, std::int64_t size) {
    if (config.has(key) && config.count(key) != size) config.refuse_value(key, fmt::format("{}, or absent", size));
  };
  if (config.has("head_dim")) require_size("head_dim", sizes.rotated);
  require_size("qk_head_dim", sizes.key_columns());
  model.head_dim = sizes.key_columns();
}

void write_latent_attention(const ModelConfig& config, Json& text) {
  const LatentAttention& sizes = *config.latent;
  text["q_lora_rank"] = sizes.query_rank > 0 ? Json(sizes.query_rank) : Json(nullptr);
  text["kv_lora_rank"] = sizes.key_value_rank;
  text["qk_nope_head_dim"] = sizes.plain;
  text["qk_rope_head_dim"] = sizes.rotated;
  text["v_head_dim"] = sizes.value;
  text["head_dim"] = sizes.rotated;  // as Hugging Face has it
}

std::vector<TensorSpec> latent_attention_tensors(const ModelConfig& config, const Block& block) {
  using enum TensorRole;
  const LatentAttention& sizes = *config.latent;
  const std::string layer = fmt::format("{}{}.", decoder_names.layers, block.layer), own = layer + "self_attn.";
  const std::int64_t queries = config.heads * sizes.key_columns(), of_key_value = sizes.plain + sizes.value;
  const bool has_query_latent = sizes.query_rank > 0;
  std::vector<TensorSpec> tensors{norm_tensor(norm_weight, layer + "input_layernorm", config.hidden)};
  if (has_query_latent)
    tensors.push_back({.role = compress_weight, .name = own + "q_a_proj.weight", .shape = {sizes.query_rank, config.hidden}});
  tensors.push_back({.role = compress_weight,
                     .name = own + "kv_a_proj_with_mqa.weight",
                     .shape = {sizes.key_value_rank + sizes.rotated, config.hidden}});
  if (has_query_latent) tensors.push_back(norm_tensor(latent_query_norm_weight, own + "q_a_layernorm", sizes.query_rank));
  tensors.push_back(norm_tensor(latent_key_norm_weight, own + "kv_a_layernorm", sizes.key_value_rank));
  const std::int64_t inputs = has_query_latent ? sizes.query_rank : config.hidden;
  tensors.push_back(heads_matrix(query_expand_weight, own + (has_query_latent ? "q_b_proj" : "q_proj"), {queries, inputs},
                                 sizes.key_columns()));
  tensors.push_back(heads_matrix(key_value_expand_weight, own + "kv_b_proj",
                                 {config.heads * of_key_value, sizes.key_value_rank}, of_key_value));
  tensors.push_back({.role = attention_out_weight,
                     .name = own + "o_proj.weight",
                     .shape = {config.hidden, config.heads * sizes.value},
                     .split = Split::columns});
  return tensors;
}

}  // namespace pipetrain
