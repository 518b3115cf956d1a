// Weights on disk and initial weights, as full logical tensors. The layout decides which slice a rank holds.
#pragma once

#include <cstddef>
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
#include "ops/normal_draw.hpp"
#include "ops/quantised_matrix.hpp"

namespace pipetrain {

// Receives values of elements of a slice, counted from its first one.
using TakeElements = std::function<void(std::size_t begin, const float* values, std::size_t count)>;

// WeightSource gives a stage's initial weights. Thread-safe: ranks load at the same time.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // Fills `out` (parameter.local, dense f32, host memory) with this rank's slice. Throws Error(input) naming file and tensor.
  virtual void load(const Parameter& parameter, float* out) const = 0;
  // Fills `out` (layout.bytes, host memory) with the slice, if the source has the tensor in the layout's form. Otherwise
  // returns false, and the caller quantises what load() gives. Throws as load() does.
  virtual bool load_quantised(const Parameter&, const QuantisedLayout&, std::byte*) const { return false; }
  // Calls `take` for the elements of the slice as they lie in memory, in a few runs. Otherwise returns false before any call,
  // and the caller takes what load() gives. The values stay as long as the source. Throws as load() does.
  virtual bool pass_in_memory(const Parameter&, const Region&, const TakeElements&) const { return false; }
  // Returns how load() draws the logical tensor's elements, so that a device may draw them itself; nothing where they are not
  // drawn as normals.
  virtual std::optional<NormalDraw> drawn(const Parameter&) const { return std::nullopt; }
};

// Normal(0, config.init_std), norms 1, biases 0; GPT-2's matrices that end in the residual stream have a deviation of
// init_std / sqrt(2 layers) (Radford et al. 2019). Each element is a pure function of (seed, name, index in the full tensor).
std::unique_ptr<WeightSource> random_weights(const ModelConfig& config, std::uint64_t seed);

// Says how to treat a folder that has more layers than the configuration.
struct LayerCut {
  bool wanted = false;            // true if the user asked for the first layers alone, so that the others are skipped
  const char* setting = nullptr;  // the setting that asks for it, for the error that suggests it; null if there is none
};

struct WeightReading {
  // Set if the folder has a language model's weights and the configuration classifies: the head is then
  // random_weights() of this seed.
  std::optional<std::uint64_t> new_head = {};
  LayerCut cut = {};
};

// Opens a checkpoint's weights in its ranks' files; else DIR/model.safetensors, or the shards of
// DIR/model.safetensors.index.json, or, if neither exists, the one *.safetensors file, index or complete set of
// numbered shards; f32, bf16 and f16 are converted to f32. Checks every header before it returns: the model's
// tensors must be there with their shapes, and no others except those computed from the configuration, a tied
// model's second copy of its matrix (tied_head.hpp) and layers that were cut off. Throws Error(input), also for
// weights that are found not to be finite when they are loaded.
std::unique_ptr<WeightSource> hf_weights(const ModelConfig& config, const std::filesystem::path& folder,
                                         const WeightReading& reading = {});

// Returns the text of every error for which hf_weights() refuses the folder, one for each tensor; none where it does not.
std::vector<std::string> weight_faults(const ModelConfig& config, const std::filesystem::path& folder);

struct NamedShape {
  std::string name;
  Shape shape;
  ParameterGroup group = ParameterGroup::dense;  // the logical tensor's group
};
// Returns all logical tensors of the model in canonical order; a tied head is not listed.
std::vector<NamedShape> logical_tensors(const ModelConfig& config);

// Writes DIR/config.json, DIR/model.safetensors (or model-00001-of-0000N.safetensors, ... with
// model.safetensors.index.json) and copies of the companions, so that Hugging Face can read them. fill(i, out)
// must write the full tensor logical_tensors(config)[i] as f32; it is called in order, and only one tensor is
// in memory at a time. The folder appears whole or not at all: it is written as DIR.partial and renamed. An
// older model folder is replaced, and its other files (a tokenizer) are kept. Throws Error(input) if the disk
// is full, if the path cannot be written, or if it is a file or a folder that is not a model; throws
// Error(numeric) for weights beyond the type's range; errors of fill pass through.
void save_hf_model(const ModelConfig& config, const std::filesystem::path& folder,
                   const std::function<void(std::size_t, float*)>& fill, const ModelFolderOptions& options = {});
// Writes a folder whose files write(path) makes, and copies of the companions, as save_hf_model() does.
void save_model_folder(const std::filesystem::path& folder, const std::vector<std::filesystem::path>& companions,
                       const std::function<void(const std::filesystem::path&)>& write);
// Throws the errors of save_hf_model that can be found before hours of training: the folder cannot be created,
// or something else is at its path. Leaves nothing behind.
void check_hf_target(const std::filesystem::path& folder);

}  // namespace pipetrain
