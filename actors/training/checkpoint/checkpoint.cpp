#include "actors/training/checkpoint/checkpoint.hpp"

#include <fmt/format.h>

#include <string_view>

#include "actors/training/checkpoint/base_fingerprint.hpp"
#include "actors/training/checkpoint/checkpoint_folder.hpp"
#include "actors/training/checkpoint/kept_states.hpp"
#include "core/checksum.hpp"
#include "core/error.hpp"
#include "files/file_io.hpp"
#include "model/optimizer/optimizer.hpp"
#include "model/parameters/parameter_slice.hpp"
#include "model/weights/peft/peft_config.hpp"
#include "model/weights/peft_folder.hpp"
#include "model/weights/piecewise_weights.hpp"
#include "model/weights/safetensors.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

constexpr const char* config_file = "config.json";
constexpr const char* weights_file = "model.safetensors";
constexpr std::size_t most_small_bytes = std::size_t{64} << 20;

// Formats 2 and 3 only have the states of AdamW.
const std::vector<std::string>& optimizer_states() {
  static const std::vector<std::string> states = make_optimizer({})->states();
  return states;
}

std::string file_of(const std::string& state) { return state + ".safetensors"; }

std::vector<std::string> tensor_files(const CheckpointManifest& manifest) {
  if (manifest.format == CheckpointFormat::rank_files) {
    std::vector<std::string> files;
    for (const auto& [name, sums] : manifest.checksums->tensors) files.push_back(name);
    return files;
  }
  std::vector<std::string> files = {weights_file};
  for (const std::string& state : optimizer_states()) files.push_back(file_of(state));
  return files;
}

// A file that holds full tensors under the names of their parameters.
class TensorFile : public WeightSource {
 public:
  TensorFile(const fs::path& path, const std::vector<NamedShape>& tensors) : reader_(path) {
    for (const auto& tensor : tensors) reader_.check(tensor.name, tensor.shape);
  }
  void load(const Parameter& parameter, float* out) const override {
    read_slice(parameter, out,
               [&](std::int64_t first, std::int64_t count, float* to) { reader_.read(parameter.name, first, count, to); });
  }

 private:
  SafetensorsReader reader_;
};

CheckpointManifest manifest_of(const fs::path& checkpoint) {
  CheckpointManifest manifest = read_manifest(checkpoint / checkpoint_state_file);
  const auto named = checkpoint_step(checkpoint);
  if (named && *named != manifest.state.step) {
    throw Error(ErrorKind::input, fmt::format("{}: its {} is of step {}; take another checkpoint", checkpoint.string(),
                                              checkpoint_state_file, manifest.state.step));
  }
  return manifest;
}

void check_files(const fs::path& checkpoint, const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    std::error_code error;
    if (fs::exists(checkpoint / file, error)) continue;
    const std::string why =
        error ? fmt::format("{} cannot be read ({})", file, error.message()) : fmt::format("it has no {}", file);
    throw Error(ErrorKind::input, fmt::format("{}: is not a complete checkpoint: {}; take another", checkpoint.string(), why));
  }
}

std::vector<fs::path> paths_of(const fs::path& checkpoint, const std::vector<std::string>& files) {
  std::vector<fs::path> paths;
  for (const std::string& file : files) paths.push_back(checkpoint / file);
  return paths;
}

StateShapes state_shapes(const CheckpointManifest& manifest) {
  const bool whole = make_optimizer(default_settings(manifest.state.optimizer))->granularity() == Granularity::matrix;
  return whole ? StateShapes::own : StateShapes::of_weights;
}

void check_structure(const fs::path& checkpoint, const CheckpointManifest& manifest) {
  ModelConfig config = read_checkpoint_config(checkpoint);
  config.trained = manifest.state.trained;
  const auto files = tensor_files(manifest);
  if (manifest.format != CheckpointFormat::rank_files) {
    for (const std::string& file : files) SafetensorsReader(checkpoint / file).check_coverage();
  } else if (!piecewise_states(config, paths_of(checkpoint, files), state_shapes(manifest)).contains(weights_state)) {
    throw Error(ErrorKind::input, fmt::format("{}: its files hold no weights; take another checkpoint", checkpoint.string()));
  }
}

// Reads and checks everything but the tensors' values.
CheckpointManifest examine(const fs::path& checkpoint) {
  check_files(checkpoint, {checkpoint_state_file, config_file});
  CheckpointManifest manifest = manifest_of(checkpoint);
  check_files(checkpoint, tensor_files(manifest));
  return manifest;
}

void check_checksums(const fs::path& checkpoint, const CheckpointChecksums& checksums, const std::vector<std::string>& files) {
  for (const auto& [file, sum] : checksums.small_files) {
    const std::string text = read_text(checkpoint / file, most_small_bytes);
    if (checksum(text.data(), text.size()) != sum)
      throw Error(
          ErrorKind::input,
          fmt::format("{}: differs from the saved one, by the checksum in {}; the file is damaged: take another checkpoint",
                      (checkpoint / file).string(), checkpoint_state_file));
  }
  for (const std::string& file : files) {
    const auto found = checksums.tensors.find(file);
    if (found == checksums.tensors.end())
      throw Error(ErrorKind::input, fmt::format("{}: {} has no checksums of {}; take another checkpoint", checkpoint.string(),
                                                checkpoint_state_file, file));
    verify_safetensors(checkpoint / file, found->second, checkpoint_state_file);
  }
}

// True when an adapter has the tensors of the other one, and multiplies them alike.
bool are_same_adapters(const ModelConfig& a, const ModelConfig& b) {
  const auto tensors = [](const ModelConfig& config) {
    std::vector<std::string> found;
    const auto all = logical_tensors(config);
    for (const std::size_t i : trained_tensors(config)) found.push_back(all[i].name + to_string(all[i].shape));
    return found;
  };
  return a.adapter.exists() == b.adapter.exists() && a.adapter.root_scale == b.adapter.root_scale &&
         a.adapter.magnitudes == b.adapter.magnitudes && a.adapter.alpha == b.adapter.alpha &&
         a.adapter.alphas == b.adapter.alphas && (!a.adapter.exists() || tensors(a) == tensors(b));
}

// Throws where a checkpoint has other adapters than the run, or adapters of another model.
void check_adapters(const fs::path& checkpoint, const CheckpointManifest& manifest, const ModelConfig& config,
                    const WeightSource* base) {
  const auto refuse = [&](const char* why) { throw Error(ErrorKind::input, fmt::format("{}: {}", checkpoint.string(), why)); };
  const ModelConfig saved = read_checkpoint_config(checkpoint);
  if (saved.adapter.exists() && !config.adapter.exists())
    refuse("this checkpoint holds adapters alone; give the lora settings that it was made with");
  if (!saved.adapter.exists() && config.adapter.exists())
    refuse("this checkpoint has no adapters; leave out the lora settings, or begin a new run from its weights");
  if (!are_same_adapters(saved, config))
    refuse("this checkpoint has other adapters; give the lora settings that it was made with");
  if (config.adapter.exists() && base != nullptr && manifest.state.base &&
      *manifest.state.base != base_fingerprint(base_model(config), *base))
    refuse("the adapters of this checkpoint belong to other weights of the model; give the model that they were made with");
}

// Adds a remedy that applies to damage of any file of a checkpoint to the error of the file's reader.
template <class Check>
void with_remedy(const Check& check) {
  constexpr std::string_view remedy = "take another checkpoint";
  try {
    check();
  } catch (const Error& error) {
    if (std::string_view(error.what()).find(remedy) != std::string_view::npos) throw;
    throw Error(error.kind(), fmt::format("{}; or {}", error.what(), remedy));
  }
}

}  // namespace

CheckpointManifest verify_checkpoint(const fs::path& checkpoint) {
  CheckpointManifest manifest = examine(checkpoint);
  with_remedy([&] {
    if (manifest.checksums) check_checksums(checkpoint, *manifest.checksums, tensor_files(manifest));
    check_structure(checkpoint, manifest);
  });
  return manifest;
}

void verify_weights_of_checkpoint(const fs::path& folder) {
  std::error_code ignored;
  const auto has = [&](const std::string& file) { return fs::exists(folder / file, ignored); };
  if (!has(checkpoint_state_file) || (!has(file_of(optimizer_states().front())) && rank_files(folder).empty())) return;
  const CheckpointManifest manifest = manifest_of(folder);
  const bool in_rank_files = manifest.format == CheckpointFormat::rank_files;
  const std::vector<std::string> files = in_rank_files ? tensor_files(manifest) : std::vector<std::string>{weights_file};
  check_files(folder, files);
  if (manifest.checksums) with_remedy([&] { check_checksums(folder, *manifest.checksums, files); });
}

ModelConfig read_checkpoint_config(const fs::path& checkpoint) {
  ModelConfig config = read_hf_config(checkpoint);
  if (config.mtp.layers > 0) config.mtp.loss = 1;
  std::error_code ignored;
  return fs::exists(checkpoint / peft_config_file, ignored) ? with_peft_config(std::move(config), checkpoint) : config;
}

namespace {

// The configuration of a run has further layers only if the run trains them.
void check_further_prediction(const fs::path& checkpoint, const ModelConfig& stored, const ModelConfig& config) {
  const bool had = stored.mtp.layers > 0;
  if (had == config.mtp.is_trained()) return;
  throw Error(ErrorKind::input, {"mtp-loss", fmt::format("{}", config.mtp.loss)},
              fmt::format("{} was made {} a further prediction; {}, or begin a new run from its weights", checkpoint.string(),
                          had ? "with" : "without", had ? "give the weight of its loss" : "leave it out"));
}

// Returns all but the sources.
InitialState values_of(const CheckpointState& state) {
  InitialState initial;
  initial.expert_biases = state.expert_biases;
  initial.applied_steps = state.applied_steps;
  initial.loss_scale = state.loss_scale;
  initial.variance = state.variance;
  return initial;
}

void take_states(std::map<std::string, std::shared_ptr<const WeightSource>> states, std::shared_ptr<const WeightSource> base,
                 InitialState& initial) {
  initial.states = std::move(states);
  initial.weights = initial.states.extract(weights_state).mapped();
  if (base) initial.weights = adapted_weights(std::move(base), std::move(initial.weights));
}

}  // namespace

InitialState open_checkpoint(const fs::path& checkpoint, const CheckpointManifest& manifest, const ModelConfig& config,
                             std::shared_ptr<const WeightSource> base) {
  const ModelConfig stored = read_hf_config(checkpoint);
  if (!same_model(stored, config)) {
    throw Error(
        ErrorKind::input,
        fmt::format("{}: this checkpoint is of another model; give the model, and the number of layers, it was made with",
                    checkpoint.string()));
  }
  check_further_prediction(checkpoint, stored, config);
  check_adapters(checkpoint, manifest, config, base.get());
  const TrainedParts &had = manifest.state.trained, &wanted = config.trained;
  if ((wanted.blocks && !had.blocks) || (wanted.embeddings && !had.embeddings) || (wanted.head && !had.head))
    throw Error(
        ErrorKind::input,
        fmt::format(
            "{}: parts of the model were frozen, so it has no optimizer states of them; it trained {}: train no others, or "
            "begin a new run from its weights",
            checkpoint.string(), to_string(had)));
  InitialState initial = values_of(manifest.state);
  const auto lacks_an_expert = [&](const std::vector<float>& layer) { return std::ssize(layer) != config.experts.count; };
  if (!initial.expert_biases.empty() &&
      (std::ssize(initial.expert_biases) != config.routed_layers() ||
       std::any_of(initial.expert_biases.begin(), initial.expert_biases.end(), lacks_an_expert)))
    throw Error(ErrorKind::input,
                fmt::format("{}: the biases of its experts are not those of the model's {} routed layers; take "
                            "another checkpoint",
                            checkpoint.string(), config.routed_layers()));
  if (manifest.format == CheckpointFormat::rank_files) {
    ModelConfig saved = config;
    saved.trained = had;
    take_states(piecewise_states(saved, paths_of(checkpoint, tensor_files(manifest)), state_shapes(manifest)), std::move(base),
                initial);
  } else {
    const auto tensors = logical_tensors(config);
    initial.weights = hf_weights(config, checkpoint);
    for (const std::string& name : optimizer_states())
      initial.states[name] = std::make_shared<TensorFile>(checkpoint / file_of(name), tensors);
  }
  return initial;
}

InitialState open_kept(const KeptCheckpoint& kept, const ModelConfig& config, std::shared_ptr<const WeightSource> base) {
  std::vector<std::shared_ptr<const StoredPieces>> stores;
  for (const auto& [rank, pieces] : kept.ranks) stores.push_back(pieces);
  InitialState initial = values_of(kept.contents.state);
  take_states(piecewise_states(config, stores, state_shapes({kept.contents.state, {}})), std::move(base), initial);
  return initial;
}

std::optional<std::string> checkpoint_fault(const fs::path& checkpoint) {
  try {
    check_structure(checkpoint, examine(checkpoint));
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace pipetrain
