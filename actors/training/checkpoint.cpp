#include "actors/training/checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "actors/training/rank_state.hpp"
#include "core/checksum.hpp"
#include "core/error.hpp"
#include "files/file_io.hpp"
#include "files/folder_draft.hpp"
#include "model/weights/parameter_slice.hpp"
#include "model/weights/safetensors.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

constexpr const char* config_file = "config.json";
constexpr const char* weights_file = "model.safetensors";
constexpr std::size_t most_config_bytes = std::size_t{16} << 20;

// Of the one optimizer there is.
const std::vector<std::string>& optimizer_states() {
  static const std::vector<std::string> states = make_optimizer({})->states();
  return states;
}

std::string file_of(const std::string& state) { return state + ".safetensors"; }

std::vector<std::string> tensor_files() {
  std::vector<std::string> files = {weights_file};
  for (const std::string& state : optimizer_states()) files.push_back(file_of(state));
  return files;
}

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

// The step in "step-00000010"; nothing for other names.
std::optional<std::int64_t> step_of(const fs::path& path) {
  constexpr std::size_t least_digits = 8, most_digits = 18;
  const std::string name = path.filename().string();
  if (!name.starts_with("step-") || name.size() < 5 + least_digits || name.size() > 5 + most_digits) return {};
  if (!std::all_of(name.begin() + 5, name.end(), [](char c) { return c >= '0' && c <= '9'; })) return {};
  return std::stoll(name.substr(5));
}

// What is certainly no folder does not count; what cannot be examined does, so that it is not taken for nothing.
std::vector<fs::path> list_checkpoints(const fs::path& folder, std::error_code& error) {
  std::vector<fs::path> found;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code unknown;
    const fs::file_status status = entry->status(unknown);
    const bool may_be_folder = unknown || !fs::exists(status) || fs::is_directory(status);
    if (step_of(entry->path()) && may_be_folder) found.push_back(entry->path());
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return step_of(a) < step_of(b); });
  return found;
}

CheckpointManifest manifest_of(const fs::path& checkpoint) {
  CheckpointManifest manifest = read_manifest(checkpoint / checkpoint_state_file);
  const auto named = step_of(checkpoint);
  if (named && *named != manifest.state.step) {
    throw Error(ErrorKind::input, fmt::format("{}: its {} tells of step {}; take another checkpoint", checkpoint.string(),
                                              checkpoint_state_file, manifest.state.step));
  }
  return manifest;
}

void check_files(const fs::path& checkpoint) {
  std::vector<std::string> files = tensor_files();
  files.insert(files.begin(), {checkpoint_state_file, config_file});
  for (const std::string& file : files) {
    std::error_code error;
    if (fs::exists(checkpoint / file, error)) continue;
    const std::string why =
        error ? fmt::format("{} cannot be read ({})", file, error.message()) : fmt::format("it has no {}", file);
    throw Error(ErrorKind::input, fmt::format("{}: is not a complete checkpoint: {}; take another", checkpoint.string(), why));
  }
}

void check_structure(const fs::path& checkpoint) {
  read_hf_config(checkpoint);
  for (const std::string& file : tensor_files()) SafetensorsReader(checkpoint / file).check_coverage();
}

std::uint64_t config_checksum(const fs::path& checkpoint) {
  const std::string text = read_text(checkpoint / config_file, most_config_bytes);
  return checksum(text.data(), text.size());
}

void check_checksums(const fs::path& checkpoint, const CheckpointChecksums& checksums, const std::vector<std::string>& files) {
  if (config_checksum(checkpoint) != checksums.config)
    throw Error(ErrorKind::input, fmt::format("{}: is not what was saved, by the checksum in {}; the file is damaged",
                                              (checkpoint / config_file).string(), checkpoint_state_file));
  for (const std::string& file : files) {
    const auto found = checksums.tensors.find(file);
    if (found == checksums.tensors.end())
      throw Error(ErrorKind::input,
                  fmt::format("{}: {} has no checksums of {}", checkpoint.string(), checkpoint_state_file, file));
    verify_safetensors(checkpoint / file, found->second, checkpoint_state_file);
  }
}

// What to do about damage to a file.
template <class Check>
void with_remedy(const Check& check) {
  try {
    check();
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}; take another checkpoint", error.what()));
  }
}

}  // namespace

void save_checkpoint(const fs::path& folder, const ModelConfig& config, const CheckpointState& state,
                     const std::function<void(const std::string& name, std::size_t, float*)>& fill) {
  const auto fill_of = [&](const std::string& name) {
    return [&fill, name](std::size_t i, float* out) { fill(name, i, out); };
  };
  FolderDraft draft(checkpoint_path(folder, state.step));
  draft.fill([&](const fs::path& path) {
    const auto tensors = logical_tensors(config);
    CheckpointChecksums checksums;
    checksums.tensors[weights_file] = write_hf_model(config, path, fill_of(weights_state));
    checksums.config = config_checksum(path);
    for (const std::string& name : optimizer_states()) {
      checksums.tensors[file_of(name)] = write_tensors(path / file_of(name), tensors, fill_of(name));
    }
    write_manifest(path / checkpoint_state_file, {state, std::move(checksums)});
  });
  draft.publish();
}

CheckpointManifest verify_checkpoint(const fs::path& checkpoint) {
  check_files(checkpoint);
  CheckpointManifest manifest = manifest_of(checkpoint);
  with_remedy([&] {
    if (manifest.checksums) check_checksums(checkpoint, *manifest.checksums, tensor_files());
    check_structure(checkpoint);
  });
  return manifest;
}

void verify_weights_of_checkpoint(const fs::path& folder) {
  std::error_code ignored;
  for (const std::string& file : {std::string(checkpoint_state_file), file_of(optimizer_states().front())})
    if (!fs::exists(folder / file, ignored)) return;
  const CheckpointManifest manifest = manifest_of(folder);
  if (manifest.checksums) with_remedy([&] { check_checksums(folder, *manifest.checksums, {weights_file}); });
}

InitialState open_checkpoint(const fs::path& checkpoint, const CheckpointState& state, const ModelConfig& config) {
  if (!same_model(read_hf_config(checkpoint), config)) {
    throw Error(
        ErrorKind::input,
        fmt::format("{}: this checkpoint is of another model; give the model, and the number of layers, it was made with",
                    checkpoint.string()));
  }
  const auto tensors = logical_tensors(config);
  InitialState initial;
  initial.weights = hf_weights(config, checkpoint);
  for (const std::string& name : optimizer_states()) {
    initial.states[name] = std::make_shared<TensorFile>(checkpoint / file_of(name), tensors);
  }
  initial.applied_steps = state.applied_steps;
  initial.loss_scale = state.loss_scale;
  return initial;
}

std::optional<std::string> checkpoint_fault(const fs::path& checkpoint) {
  try {
    check_files(checkpoint);
    manifest_of(checkpoint);
    check_structure(checkpoint);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

fs::path checkpoint_path(const fs::path& folder, std::int64_t step) { return folder / fmt::format("step-{:08}", step); }

std::vector<fs::path> find_checkpoints(const fs::path& folder) {
  std::error_code error;
  auto found = list_checkpoints(folder, error);
  if (error && error != std::errc::no_such_file_or_directory) {
    throw Error(ErrorKind::input, fmt::format("{}: cannot be searched for checkpoints ({}); check its permissions",
                                              folder.string(), error.message()));
  }
  return found;
}

void remove_old_checkpoints(const fs::path& folder, std::int64_t step, std::int64_t keep) {
  std::error_code ignored;
  auto found = list_checkpoints(folder, ignored);
  std::vector<fs::path> renamed;
  for (; !found.empty(); found.pop_back()) {
    const fs::path& checkpoint = found.back();
    if (step_of(checkpoint) > step) continue;
    if (keep > 0) {
      if (!checkpoint_fault(checkpoint)) --keep;
      continue;
    }
    const fs::path unfinished = checkpoint.string() + ".partial";
    std::error_code error;
    fs::remove_all(unfinished, ignored);
    fs::rename(checkpoint, unfinished, error);
    if (!error) renamed.push_back(unfinished);
  }
  if (renamed.empty()) return;
  sync_folder(folder);
  for (const fs::path& path : renamed) fs::remove_all(path, ignored);
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

void restore_replaced_checkpoints(const fs::path& folder) {
  try {
    std::vector<fs::path> targets;
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string name = name_replaced(entry.path());
      if (step_of(name)) targets.push_back(folder / name);
    }
    for (const fs::path& target : targets) settle_replaced(target);
  } catch (const fs::filesystem_error& error) {
    throw Error(ErrorKind::input, fmt::format("{}: cannot be searched for checkpoints ({}); check its permissions",
                                              folder.string(), error.code().message()));
  }
}

}  // namespace pipetrain
