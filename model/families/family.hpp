// A model family is one FamilySpec, in the file of its name. families.cpp lists them; nothing else tells families apart.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "model/config/config.hpp"
#include "model/config/tensor_spec.hpp"
#include "model/families/keys/hf_config_reader.hpp"

namespace pipetrain {

// Hugging Face's names of a family's tensors, where code other than the family's must know it.
struct FamilyNames {
  const char* embedding;        // the table of token embeddings
  const char* head;             // the output matrix, where it is not tied
  const char* layers;           // the beginning of the names of layer N's tensors, before the N
  const char* optional_prefix;  // that files of the bare model, saved without its head, leave out; "" if there is none
  // The endings of the names of tensors that old files keep, though they follow from the configuration; null: no more.
  std::array<const char*, 2> recomputed;
};

// The names of the tensors of a routed block, after "model.layers.N.".
struct ExpertNames {
  const char* block;             // "mlp."
  const char *gate, *up, *down;  // the matrices of an expert: "gate_proj"
  const char* count;             // the key of config.json that gives the number of experts
  const char* router = "gate";
  const char* shared = "shared_expert";
  // Files have the matrices of all experts, and their biases, in one tensor each: see expert_stacks.hpp.
  bool stacked = false;
};

// A multimodal model that contains a language model of the family. Its config.json has the language model's keys under
// text_config, and its files have tensors of other parts, such as a vision tower, which training leaves unchanged.
struct MultimodalSpec {
  const char* model_type;                  // Hugging Face's
  const char* architecture;                // Hugging Face's
  Json (*text_defaults)();                 // the values that Hugging Face gives the keys that text_config leaves out
  std::vector<const char*> keys;           // the keys beside text_config that concern the other parts alone
  std::vector<const char*> part_prefixes;  // the beginnings of the names of the other parts' tensors
};

// The names of the families that name their tensors as Llama does.
inline constexpr FamilyNames decoder_names{.embedding = "model.embed_tokens.weight",
                                           .head = "lm_head.weight",
                                           .layers = "model.layers.",
                                           .optional_prefix = "",
                                           .recomputed = {".rotary_emb.inv_freq", nullptr}};
// Returns the tensors of a block of these families, with the biases and head norms that the configuration says.
std::vector<TensorSpec> decoder_tensors(const ModelConfig& config, const Block& block);

struct FamilySpec {
  const char* name;          // as errors have it
  const char* model_type;    // Hugging Face's
  const char* architecture;  // Hugging Face's, the one with a language-model head
  const char* classifier;    // Hugging Face's, the one with a head for sequence classification; "" if it has none
  FamilyNames names = decoder_names;
  std::vector<double DropoutRates::*> dropouts = {&DropoutRates::attention};  // the rates that its config.json has
  ModelConfig defaults;  // common to all models of the family; sizes are still to be given
  // The ids that hold where config.json does not mention them. Without pad_id such a model has no padding token.
  std::optional<std::int64_t> bos_id = {}, eos_id = {}, pad_id = {};
  bool has_windows = false;  // its models may have layers within a window
  std::optional<MultimodalSpec> multimodal = {};
  // Reads config.json except for what every family has: the vocabulary (read before), init_std, bos_id, eos_ids. Throws
  // Error(input) naming the key, also for what is not built.
  void (*read)(const HfConfigReader& config, ModelConfig& model);
  // Writes all keys but those that every family has. Hugging Face reads the whole file back as the same model.
  void (*write)(const ModelConfig& config, Json& text);
  // block_tensors() of this family's models.
  std::vector<TensorSpec> (*tensors)(const ModelConfig& config, const Block& block) = decoder_tensors;
  const ExpertNames* experts = nullptr;  // null for a family without routed experts
  // The quant_method of published files whose numbers are read as they are meant, and saved as any other model's; "": none.
  const char* read_quantization = "";
};

constexpr std::int64_t most_layers = 10'000;

const std::vector<FamilySpec>& families();
// Returns the padding token where config.json does not mention one; empty where the vocabulary does not have it.
std::optional<std::int64_t> usual_pad_id(const ModelConfig& config);
const FamilySpec& spec_of(Family family);
inline ModelConfig family_config(Family family) { return spec_of(family).defaults; }

// The name that Hugging Face gives the matrix of a head for classification, in every family.
inline constexpr const char* classifier_head = "score.weight";

// Returns the head's matrix: that of classes, or of the vocabulary, which may be the embedding's.
TensorSpec output_tensor(const ModelConfig& config, const FamilyNames& names);
// Return the weight of a norm, which begins as 1, and a bias, which begins as 0. Neither decays. name: without ".weight" or
// ".bias".
TensorSpec norm_tensor(TensorRole role, const std::string& name, std::int64_t size);
TensorSpec bias_tensor(TensorRole role, const std::string& name, std::int64_t size, Split split);

}  // namespace pipetrain
