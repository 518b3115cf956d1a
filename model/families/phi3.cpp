// Phi-3 and Phi-4: a layer's query, key and value matrices are one tensor in files, and so are gate and up. A part of each head
// may rotate, by longrope beyond the original context, and all layers may attend within one window.
#include <fmt/format.h>

#include "model/families/decoder.hpp"
#include "model/families/keys/layer_type_keys.hpp"
#include "model/families/keys/rope_keys.hpp"

namespace pipetrain {
namespace {

constexpr std::int64_t phi3_positions = 4096;  // where the key is absent
constexpr const char* positions_key = "original_max_position_embeddings";

// The keys of a Phi that Hugging Face does not read. They come with published models, in which they change nothing.
void refuse_unbuilt_phi3(const HfConfigReader& config) {
  for (const char* key : {"attention_bias", "mlp_bias", "lm_head_bias"})
    if (config.flag_or(key, false)) config.refuse_value(key, "false (a Phi's biases are not built)");
  for (const char* key : {"full_attn_mod", "interpolate_factor"})
    if (config.has(key) && config.count(key) != 1) config.refuse_value(key, "1, or absent (what it asks for is not built)");
}

void read_phi3(const HfConfigReader& config, ModelConfig& model) {
  refuse_unbuilt_phi3(config);
  read_decoder(config, model);
  model.dropout.residual = config.share_or("resid_pdrop", 0);
  config.share_or("embd_pdrop", 0);                            // Hugging Face reads it and drops nothing
  if (config.has(positions_key)) config.count(positions_key);  // without scaling it changes nothing
  set_windows({.window = read_window(config, 0)}, model);
  read_rope(config, model, {.only_longrope = true, .original_positions = phi3_positions});
}

void write_phi3(const ModelConfig& config, Json& text) {
  write_decoder(config, text);
  write_window(config, text);
  text["resid_pdrop"] = config.dropout.residual;
  if (config.rope.scaling.kind == RopeScaling::Kind::longrope) text[positions_key] = config.rope.scaling.original_max_positions;
}

// Files store one tensor for the matrices that are stacked into this one: `parts` parts of equal size, of which each piece
// takes some.
void fuse_rows(std::vector<TensorSpec>& tensors, TensorRole role, const std::string& name, const std::vector<int>& spans) {
  int parts = 0;
  for (const int span : spans) parts += span;
  std::size_t piece = 0;
  int first = 0;
  for (TensorSpec& tensor : tensors) {
    if (tensor.role != role) continue;
    const int span = spans.at(piece++);
    tensor.name = name;
    tensor.shape = tensor.shape.with(0, tensor.shape[0] / span * parts);
    tensor.part = {first, parts, span};
    first += span;
  }
}

std::vector<TensorSpec> phi3_tensors(const ModelConfig& config, const Block& block) {
  std::vector<TensorSpec> tensors = decoder_tensors(config, block);
  const std::string prefix = fmt::format("{}{}.", decoder_names.layers, block.layer);
  const auto group = static_cast<int>(config.heads / config.kv_heads);
  fuse_rows(tensors, TensorRole::qkv_weight, prefix + "self_attn.qkv_proj.weight", {group, 1, 1});
  fuse_rows(tensors, TensorRole::mlp_in_weight, prefix + "mlp.gate_up_proj.weight", {1, 1});
  return tensors;
}

}  // namespace

FamilySpec phi3_family() {
  return {.name = "Phi-3",
          .model_type = "phi3",
          .architecture = "Phi3ForCausalLM",
          .classifier = "Phi3ForSequenceClassification",
          .dropouts = {&DropoutRates::attention, &DropoutRates::residual},
          .defaults = {.family = Family::phi3},
          .bos_id = 1,
          .eos_id = 32000,
          .pad_id = 32000,
          .has_windows = true,
          .read = read_phi3,
          .write = write_phi3,
          .tensors = phi3_tensors};
}

}  // namespace pipetrain
