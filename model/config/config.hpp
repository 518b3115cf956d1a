// The configuration of a transformer of any family: read from a Hugging Face config.json or a preset.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/config/adapter.hpp"
#include "model/config/experts.hpp"
#include "model/config/further_prediction.hpp"
#include "model/config/latent_attention.hpp"
#include "model/config/rope.hpp"
#include "model/config/trained_parts.hpp"
#include "ops/preference.hpp"
#include "ops/weight_form.hpp"

namespace pipetrain {

// Whose names and config.json: Hugging Face's model_type.
enum class Family {
  llama,
  gpt2,
  qwen2,
  qwen3,
  mistral,
  gemma3,
  smollm3,
  granite,
  olmo2,
  phi3,
  seed_oss,
  mixtral,
  qwen2_moe,
  qwen3_moe,
  olmoe,
  gpt_oss,
  deepseek_v2,
  deepseek_v3
};
enum class NormKind { rms, layer };             // layer norms have a bias besides the weight
enum class PositionKind { rotary, learned };    // learned: a table of max_positions rows, added to the embedding
enum class Activation { swiglu, gelu, geglu };  // of the MLP; both GELUs in their tanh form

// Which matrices have a bias. The head's has none.
struct Biases {
  bool qkv = false, attention_out = false, mlp = false;
  bool operator==(const Biases&) const = default;
};

// How the attention of one layer differs from other layers'.
struct LayerType {
  bool windowed = false;  // a query sees the last ModelConfig::window positions up to its own, not all of them
  bool rotates = true;    // queries and keys rotate, where the model has rotary positions
  bool operator==(const LayerType&) const = default;
};

// The positions that the queries of a layer see, as SegmentShape has them (ops/segment_shape.hpp); zeros: all up to their own.
struct AttentionSight {
  std::int64_t window = 0, sinks = 0, block = 0, period = 0, stripe = 0;
  bool is_sparse() const { return sinks > 0 || block > 0 || period > 0; }
  bool operator==(const AttentionSight&) const = default;
};

// Shares of the elements that training drops.
struct DropoutRates {
  double embedding = 0;  // of the sum of token and position embeddings
  double attention = 0;  // of the attention's probabilities
  double residual = 0;   // of what attention and MLP add to the residual stream
  bool any() const { return embedding > 0 || attention > 0 || residual > 0; }
  bool operator==(const DropoutRates&) const = default;
};

struct ModelConfig {
  Family family = Family::llama;
  NormKind norm = NormKind::rms;
  PositionKind positions = PositionKind::rotary;
  Activation activation = Activation::swiglu;
  double norm_offset = 0;     // added to the weights of all norms
  bool input_norms = true;    // a norm of what attention and MLP take from the residual stream
  bool output_norms = false;  // an RMSNorm of what attention and MLP add to the residual stream
  double embedding_scale = 1;
  double residual_scale = 1;  // of what attention and MLP add to the residual stream
  double score_scale = 0;     // of attention's scores; 0: 1 / sqrt(head_dim)
  double logit_divisor = 1;   // the head divides its logits by it
  Biases biases = {};
  bool head_norms = false;        // an RMSNorm over each head of queries and keys, before they rotate
  bool projection_norms = false;  // one RMSNorm over all heads of queries and one over those of keys, before they rotate
  bool sinks = false;             // each head has a learned logit that only adds to the denominator of its softmax
  std::optional<LatentAttention> latent = {};  // queries, keys and values are expanded from latent vectors
  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t intermediate = 0;  // of MLPs that are not routed
  std::int64_t vocabulary = 0;
  std::int64_t max_positions = 0;
  double norm_eps = 1e-5;
  Rope rope = {};
  std::optional<Rope> windowed_rope = {};   // of windowed layers, where they rotate in another way
  std::int64_t window = 0;                  // positions that queries of windowed layers see; 0 where there is no such layer
  std::vector<LayerType> layer_types = {};  // by layer; empty: no layer is windowed, and all rotate
  Experts experts = {};
  bool tied_embeddings = false;
  FurtherPrediction mtp = {};
  double init_std = 0.02;
  // Settings of training rather than of the model, though config.json has them.
  DropoutRates dropout = {};
  RouterLossSettings router_losses = {};
  RouterRules router_rules = {};
  // For who generates text. pad_id is as config.json has it, which may be no id of the vocabulary.
  std::optional<std::int64_t> bos_id = {}, pad_id = {};
  std::vector<std::int64_t> eos_ids = {};  // any of them ends a text
  // The row of the table of tokens to which a token that is looked up there gives no gradient.
  std::optional<std::int64_t> untrained_row = {};
  // The names of the classes of sequence classification; the head classifies at a sequence's last token. Empty: a language
  // model, whose head has a row for each token of the vocabulary.
  std::vector<std::string> labels = {};
  // Settings of training, which config.json does not have.
  TrainedParts trained = {};
  std::optional<PreferenceFormula> preference = {};  // the loss compares whole completions; absent: it is a mean over tokens
  Adapter adapter = {};
  // The patterns that the run chooses, repeated over the layers; empty: layers see what config.json says.
  std::vector<AttentionSight> attention = {};
  // The form in which frozen matrices of attention, MLPs and experts are kept: a setting of training too, but config.json has
  // it where the files have the matrices in this form.
  WeightForm base_form = WeightForm::plain;

  // Returns the key and value heads of each tensor-parallel rank. If there are more ranks than heads, several hold copies of
  // one.
  std::int64_t kv_heads_of_rank(std::int64_t ranks) const { return kv_heads < ranks ? 1 : kv_heads / ranks; }
  bool classifies() const { return !labels.empty(); }
  // Returns the number of positions that a query of the layer sees by config.json; 0: all up to its own.
  std::int64_t window_of(std::int64_t layer) const {
    return !layer_types.empty() && layer_types.at(static_cast<std::size_t>(layer)).windowed ? window : 0;
  }
  // Returns the positions that a query of the layer sees, by the run's patterns if it has any.
  AttentionSight sight_of(std::int64_t layer) const {
    if (attention.empty()) return {.window = window_of(layer)};
    return attention[static_cast<std::size_t>(layer) % attention.size()];
  }
  // Returns the number of layers that the run computes: one more than `layers` with a further prediction.
  std::int64_t computed_layers() const { return layers + (mtp.is_trained() ? 1 : 0); }
  std::int64_t routed_layers() const {
    std::int64_t routed = 0;
    for (std::int64_t layer = 0; layer < computed_layers(); ++layer) routed += experts.routes(layer);
    return routed;
  }
  // True when the model's last part uses the embedding's table too: for its head, or for a further prediction.
  bool shares_table() const { return tied_embeddings || mtp.is_trained(); }
  // True when the layer's queries and keys rotate.
  bool rotates(std::int64_t layer) const {
    return positions == PositionKind::rotary &&
           (layer_types.empty() || layer_types.at(static_cast<std::size_t>(layer)).rotates);
  }
  // Returns the columns of a head in which queries and keys may rotate.
  std::int64_t rotary_dim() const { return latent ? latent->rotated : head_dim; }
  // Returns the columns of a head's values.
  std::int64_t value_dim() const { return latent ? latent->value : head_dim; }
  // Rows of the head's matrix.
  std::int64_t outputs() const { return classifies() ? static_cast<std::int64_t>(labels.size()) : vocabulary; }
  // Returns the columns of the output of the MLP's first matrix: gate and up side by side, or the one of a GELU.
  std::int64_t mlp_columns() const { return (activation == Activation::gelu ? 1 : 2) * intermediate; }
  bool operator==(const ModelConfig&) const = default;
};

// Tells whether the weights of one are weights of the other: equal but for what training drops, freezes and adds as adapters or
// as a further prediction, and for special tokens and what they mean to it.
bool same_model(ModelConfig a, const ModelConfig& b);
// Returns the model without adapters, all of it trained.
ModelConfig base_model(ModelConfig config);
// Returns the model of the first layers alone, without a further prediction if it has more; layers: at most as many as it has.
ModelConfig first_layers(ModelConfig config, std::int64_t layers);
// Sets every dropout rate that the family's models have to this one.
void set_dropout(ModelConfig& config, double rate);

// Returns a preset: "tiny", "gpt2", "llama-7b", ... Throws Error(input) naming the nearest one.
ModelConfig preset_config(const std::string& name);
std::vector<std::string> preset_names();
// Reads DIR/config.json, of at most 4 MiB. Throws Error(input) naming the file and the key.
ModelConfig read_hf_config(const std::string& folder);
// The most classes of a head, and the least: one class would be a regression.
inline constexpr std::int64_t least_labels = 2, most_labels = 65'536;
// The same model with a new head for that many classes, which are named as Hugging Face names those without names. Throws
// Error(input) if the family has no such head.
ModelConfig with_new_head(ModelConfig config, std::int64_t labels);
// The config.json text that Hugging Face reads back as the same model.
std::string hf_config_text(const ModelConfig& config);

}  // namespace pipetrain
