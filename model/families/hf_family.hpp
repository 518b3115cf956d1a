// What Hugging Face's config.json of a model family says beyond what those of all families say. One file a family defines it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "model/config.hpp"
#include "model/families/hf_config_reader.hpp"

namespace pipetrain {

struct HfFamily {
  Family family;
  const char* model_type;
  const char* architecture;  // the one with a language-model head
  const char* name;          // as errors have it
  // All but what every family has: the vocabulary (there already), init_std, bos_id, eos_id. Throws Error(input) naming the
  // key, also for what is not built.
  void (*read)(const HfConfigReader& config, ModelConfig& model);
  // All but what every family has. Hugging Face reads the whole back as the same model.
  void (*write)(const ModelConfig& config, nlohmann::json& text);
  // Elements of all matrices and tables as if none were tied; in floating point because 64 bits may not hold the count yet.
  double (*parameters)(const ModelConfig& config);
};

constexpr std::int64_t most_layers = 10'000;

HfFamily llama_hf_family();
HfFamily gpt2_hf_family();

}  // namespace pipetrain
