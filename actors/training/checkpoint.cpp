#include "actors/training/checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "model/files.hpp"
#include "model/safetensors.hpp"
#include "model/weights.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

constexpr int format_version = 1;
constexpr const char* first_moment_file = "exp_avg.safetensors";
constexpr const char* second_moment_file = "exp_avg_sq.safetensors";
constexpr const char* state_file = "state.json";

// A file of full tensors under the parameters' names.
class TensorFile : public WeightSource {
 public:
  TensorFile(const fs::path& path, const std::vector<NamedShape>& tensors) : reader_(path) {
    for (const auto& tensor : tensors) reader_.check(tensor.name, tensor.shape);
  }
  void load(const Parameter& parameter, float* out) const override {
    for_each_run(parameter, [&](std::int64_t full, std::int64_t count, std::int64_t local) {
      reader_.read(parameter.name, full, count, out + local);
    });
  }

 private:
  SafetensorsReader reader_;
};

void write_moments(const fs::path& path, const std::vector<NamedShape>& tensors,
                   const std::function<void(std::size_t, float*)>& fill) {
  SafetensorsWriter writer(path, tensors);
  std::vector<float> values;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    values.resize(static_cast<std::size_t>(tensors[i].shape.elements()));
    fill(i, values.data());
    writer.write(values.data());
  }
  writer.finish();
}

void write_state(const fs::path& path, const CheckpointState& state) {
  const nlohmann::ordered_json json = {{"format", format_version},
                                       {"step", state.step},
                                       {"applied_steps", state.applied_steps},
                                       {"first_loss", state.first_loss},
                                       {"global_batch", state.global_batch},
                                       {"sequence", state.sequence},
                                       {"seed", state.seed},
                                       {"shuffle", state.shuffle}};
  const std::string text = json.dump(1) + "\n";
  OutputFile file(path);
  file.write(text.data(), text.size());
  file.sync();
}

CheckpointState read_state(const fs::path& path) {
  try {
    const auto json = nlohmann::json::parse(read_text(path, 1 << 16));
    if (json.at("format") != format_version) {
      throw Error(ErrorKind::input, fmt::format("{}: checkpoint format {}, this program reads {}", path.string(),
                                                json.at("format").dump(), format_version));
    }
    CheckpointState state;
    state.step = json.at("step");
    state.applied_steps = json.at("applied_steps");
    state.first_loss = json.at("first_loss");
    state.global_batch = json.at("global_batch");
    state.sequence = json.at("sequence");
    state.seed = json.at("seed");
    state.shuffle = json.at("shuffle");
    return state;
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorKind::input, fmt::format("{}: is not a checkpoint's state; take another checkpoint", path.string()));
  }
}

// The step in "step-00000010"; nothing for other names.
std::optional<std::int64_t> step_of(const fs::path& path) {
  const std::string name = path.filename().string();
  if (name.size() != 13 || !name.starts_with("step-")) return {};
  if (!std::all_of(name.begin() + 5, name.end(), [](char c) { return c >= '0' && c <= '9'; })) return {};
  return std::stoll(name.substr(5));
}

}  // namespace

void save_checkpoint(const fs::path& folder, const ModelConfig& config, const CheckpointState& state,
                     const std::function<void(StateKind, std::size_t, float*)>& fill) {
  const fs::path target = checkpoint_path(folder, state.step), draft = target.string() + ".partial";
  std::error_code ignored;
  try {
    fs::remove_all(draft, ignored);  // left by a run that was killed
    save_hf_model(config, draft, [&](std::size_t i, float* out) { fill(StateKind::weights, i, out); });
    const auto tensors = logical_tensors(config);
    write_moments(draft / first_moment_file, tensors,
                  [&](std::size_t i, float* out) { fill(StateKind::first_moment, i, out); });
    write_moments(draft / second_moment_file, tensors,
                  [&](std::size_t i, float* out) { fill(StateKind::second_moment, i, out); });
    write_state(draft / state_file, state);
    sync_folder(draft);
    fs::remove_all(target);
    fs::rename(draft, target);
    sync_folder(folder);
  } catch (const fs::filesystem_error& error) {
    fs::remove_all(draft, ignored);
    throw Error(ErrorKind::input, fmt::format("{}: cannot be written: {}", target.string(), error.code().message()));
  } catch (...) {
    fs::remove_all(draft, ignored);
    throw;
  }
}

Checkpoint open_checkpoint(const fs::path& checkpoint, const ModelConfig& config) {
  if (!fs::exists(checkpoint / state_file)) {
    throw Error(ErrorKind::input, fmt::format("{}: is not a checkpoint: it has no {}", checkpoint.string(), state_file));
  }
  if (!(read_hf_config(checkpoint) == config)) {
    throw Error(ErrorKind::input,
                fmt::format("{}: this checkpoint is of another model; give the --model it was made with", checkpoint.string()));
  }
  const auto tensors = logical_tensors(config);
  Checkpoint opened;
  opened.state = read_state(checkpoint / state_file);
  opened.initial.weights = hf_weights(config, checkpoint);
  opened.initial.first_moment = std::make_shared<TensorFile>(checkpoint / first_moment_file, tensors);
  opened.initial.second_moment = std::make_shared<TensorFile>(checkpoint / second_moment_file, tensors);
  opened.initial.applied_steps = opened.state.applied_steps;
  return opened;
}

fs::path checkpoint_path(const fs::path& folder, std::int64_t step) { return folder / fmt::format("step-{:08}", step); }

std::vector<fs::path> find_checkpoints(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (step_of(entry.path()) && fs::exists(entry.path() / state_file)) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

void remove_old_checkpoints(const fs::path& folder, std::int64_t keep) {
  const auto found = find_checkpoints(folder);
  std::error_code ignored;
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep) < found.size(); ++i) fs::remove_all(found[i], ignored);
}

}  // namespace pipetrain
