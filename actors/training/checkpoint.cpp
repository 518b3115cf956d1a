#include "actors/training/checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "model/files.hpp"
#include "model/folder_draft.hpp"
#include "model/parameter_slice.hpp"
#include "model/safetensors.hpp"
#include "model/weights.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

constexpr int format_version = 2;
constexpr const char* weights_file = "model.safetensors";
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
    read_slice(parameter, out,
               [&](std::int64_t first, std::int64_t count, float* to) { reader_.read(parameter.name, first, count, to); });
  }

 private:
  SafetensorsReader reader_;
};

void write_state(const fs::path& path, const CheckpointState& state) {
  const nlohmann::ordered_json json = {{"format", format_version},
                                       {"step", state.step},
                                       {"applied_steps", state.applied_steps},
                                       {"first_loss", state.first_loss},
                                       {"global_batch", state.global_batch},
                                       {"sequence", state.sequence},
                                       {"seed", state.seed},
                                       {"shuffle", state.shuffle},
                                       {"samples", state.samples},
                                       {"data", state.data}};
  const std::string text = json.dump(1) + "\n";
  OutputFile file(path);
  file.write(text.data(), text.size());
  file.sync();
}

[[noreturn]] void refuse_state(const fs::path& path, const std::string& why) {
  throw Error(ErrorKind::input,
              fmt::format("{}: is not a checkpoint's state ({}); take another checkpoint", path.string(), why));
}

std::int64_t whole_number(const nlohmann::json& json, const char* key, std::int64_t least, const fs::path& path) {
  const auto& value = json.at(key);
  const bool too_large = value.is_number_unsigned() && value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max();
  if (!value.is_number_integer() || too_large || value.get<std::int64_t>() < least)
    refuse_state(path, fmt::format("{} is {}", key, value.dump()));
  return value;
}

// The step in "step-00000010"; nothing for other names.
std::optional<std::int64_t> step_of(const fs::path& path) {
  constexpr std::size_t least_digits = 8, most_digits = 18;
  const std::string name = path.filename().string();
  if (!name.starts_with("step-") || name.size() < 5 + least_digits || name.size() > 5 + most_digits) return {};
  if (!std::all_of(name.begin() + 5, name.end(), [](char c) { return c >= '0' && c <= '9'; })) return {};
  return std::stoll(name.substr(5));
}

CheckpointState read_state(const fs::path& path) {
  try {
    const auto json = nlohmann::json::parse(read_text(path, 1 << 16));
    if (json.at("format") != format_version) {
      throw Error(ErrorKind::input, fmt::format("{}: checkpoint format {}, this program reads {}; take another checkpoint",
                                                path.string(), json.at("format").dump(), format_version));
    }
    CheckpointState state;
    state.step = whole_number(json, "step", 1, path);
    state.applied_steps = whole_number(json, "applied_steps", 0, path);
    state.first_loss = json.at("first_loss");
    state.global_batch = whole_number(json, "global_batch", 1, path);
    state.sequence = whole_number(json, "sequence", 1, path);
    state.seed = json.at("seed").get_ref<const nlohmann::json::number_unsigned_t&>();
    state.shuffle = json.at("shuffle");
    state.samples = whole_number(json, "samples", 1, path);
    state.data = json.at("data").get_ref<const nlohmann::json::number_unsigned_t&>();
    const auto named = step_of(path.parent_path());
    if (state.applied_steps > state.step || (named && *named != state.step))
      refuse_state(path, fmt::format("step is {}, applied_steps {}", state.step, state.applied_steps));
    return state;
  } catch (const nlohmann::json::exception&) {
    refuse_state(path, "a key is missing, or has a wrong value");
  }
}

}  // namespace

void save_checkpoint(const fs::path& folder, const ModelConfig& config, const CheckpointState& state,
                     const std::function<void(StateKind, std::size_t, float*)>& fill) {
  const auto fill_of = [&](StateKind kind) { return [&fill, kind](std::size_t i, float* out) { fill(kind, i, out); }; };
  FolderDraft draft(checkpoint_path(folder, state.step));
  write_hf_model(config, draft.path(), fill_of(StateKind::weights));
  const auto tensors = logical_tensors(config);
  write_tensors(draft.path() / first_moment_file, tensors, fill_of(StateKind::first_moment));
  write_tensors(draft.path() / second_moment_file, tensors, fill_of(StateKind::second_moment));
  write_state(draft.path() / state_file, state);
  draft.publish();
}

Checkpoint open_checkpoint(const fs::path& checkpoint, const ModelConfig& config) {
  if (const auto fault = checkpoint_fault(checkpoint)) throw Error(ErrorKind::input, *fault);
  if (!(read_hf_config(checkpoint) == config)) {
    throw Error(ErrorKind::input,
                fmt::format("{}: this checkpoint is of another model; give the --model, and the --layers, it was made with",
                            checkpoint.string()));
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

std::optional<std::string> checkpoint_fault(const fs::path& checkpoint) {
  std::error_code ignored;
  for (const char* file : {state_file, "config.json", weights_file, first_moment_file, second_moment_file}) {
    if (!fs::exists(checkpoint / file, ignored))
      return fmt::format("{}: is not a complete checkpoint: it has no {}; take another", checkpoint.string(), file);
  }
  try {
    read_state(checkpoint / state_file);
    read_hf_config(checkpoint);
    for (const char* file : {weights_file, first_moment_file, second_moment_file})
      SafetensorsReader(checkpoint / file).check_coverage();
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

fs::path checkpoint_path(const fs::path& folder, std::int64_t step) { return folder / fmt::format("step-{:08}", step); }

std::vector<fs::path> find_checkpoints(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (step_of(entry.path()) && entry.is_directory(ignored)) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return step_of(a) < step_of(b); });
  return found;
}

void remove_old_checkpoints(const fs::path& folder, std::int64_t keep) {
  auto found = find_checkpoints(folder);
  std::error_code ignored;
  for (; !found.empty(); found.pop_back()) {
    if (keep <= 0) {
      fs::remove_all(found.back(), ignored);
    } else if (!checkpoint_fault(found.back())) {
      --keep;
    }
  }
}

void remove_unfinished_checkpoints(const fs::path& folder) {
  std::error_code ignored;
  std::vector<fs::path> unfinished;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const fs::path& path = entry.path();
    if ((path.extension() == ".partial" || path.extension() == ".old") && step_of(path.stem())) unfinished.push_back(path);
  }
  for (const fs::path& path : unfinished) fs::remove_all(path, ignored);
}

}  // namespace pipetrain
