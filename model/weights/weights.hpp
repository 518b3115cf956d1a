// Weights on disk and at birth, as full logical tensors: what a rank holds of them is the layout's business.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/config/config.hpp"
#include "model/parameters/parameters.hpp"
#include "model/weights/saved_type.hpp"

namespace pipetrain {

// Where a stage's initial weights come from. Thread-safe: ranks load at the same time.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // Fills `out` (parameter.local, dense f32, host memory) with this rank's slice. Throws Error(input) naming file and tensor.
  virtual void load(const Parameter& parameter, float* out) const = 0;
};

// Normal(0, config.init_std), norms 1, biases 0; GPT-2's matrices that end in the residual stream have a deviation of
// init_std / sqrt(2 layers) (Radford et al. 2019). Each element is a pure function of (seed, name, index in the full tensor).
std::unique_ptr<WeightSource> random_weights(const ModelConfig& config, std::uint64_t seed);

// Of a folder that may have more layers than the configuration.
struct LayerCut {
  bool wanted = false;            // whoever runs this has asked for the first layers alone: the others are passed over
  const char* setting = nullptr;  // by which they could ask, for the error that offers it; null where they cannot
};

struct WeightReading {
  // The folder has a language model's weights, and the configuration classifies: its head's are random_weights() of this seed.
  std::optional<std::uint64_t> new_head = {};
  LayerCut cut = {};
};

// Of a checkpoint, the weights in its ranks' files; else DIR/model.safetensors, or the shards of
// DIR/model.safetensors.index.json, or where neither is there, the one *.safetensors file, index or complete set of numbered
// shards; f32, bf16 and f16 are converted to f32. Checks every header before it returns: the model's tensors are there with
// their shapes, and no others but what is computed from the configuration, a tied model's second copy of its matrix
// (tied_head.hpp) and layers that were cut off. Throws Error(input), also for weights that are not finite when they are loaded.
std::unique_ptr<WeightSource> hf_weights(const ModelConfig& config, const std::filesystem::path& folder,
                                         const WeightReading& reading = {});

struct NamedShape {
  std::string name;
  Shape shape;
  ParameterGroup group = ParameterGroup::dense;  // of a logical tensor
};
// All logical tensors of the model in canonical order; a tied head is not listed.
std::vector<NamedShape> logical_tensors(const ModelConfig& config);

// Writes DIR/config.json, DIR/model.safetensors (or model-00001-of-0000N.safetensors, ... with model.safetensors.index.json)
// and copies of the companions, so that Hugging Face reads them. fill(i, out) gives the full tensor logical_tensors(config)[i]
// as f32, one after the other: no more than one is in memory. The folder appears whole or not at all: it is written as
// DIR.partial and renamed. An older model folder is replaced, its other files (a tokenizer) kept. Throws Error(input) when the
// disk is full, the place cannot be written, or a file or a folder that is no model is there, Error(numeric) for weights beyond
// the type; what fill throws passes through.
void save_hf_model(const ModelConfig& config, const std::filesystem::path& folder,
                   const std::function<void(std::size_t, float*)>& fill, const ModelFolderOptions& options = {});
// Throws what save_hf_model would throw already now, before hours of training, as far as can be told: the folder cannot be
// made, or something else is in its place. Leaves nothing behind.
void check_hf_target(const std::filesystem::path& folder);

}  // namespace pipetrain
