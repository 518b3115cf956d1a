#include "actors/training/checkpoint/resume.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "actors/training/checkpoint/base_fingerprint.hpp"
#include "actors/training/checkpoint/checkpoint.hpp"
#include "actors/training/checkpoint/checkpoint_folder.hpp"
#include "actors/training/checkpoint/initial_weights.hpp"
#include "actors/training/checkpoint/kept_states.hpp"
#include "core/counted.hpp"
#include "core/error.hpp"
#include "data/samples/fingerprint.hpp"
#include "model/weights/multimodal_parts.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

// Returns how the data settings of the checkpoint's run, which decide the next samples, differ from this run's; empty:
// not at all.
std::string other_data(const CheckpointManifest& manifest, const TrainJob& job) {
  const CheckpointState& state = manifest.state;
  const auto differs = [](auto made_with, auto given, const char* setting) {
    return made_with == given ? "" : fmt::format("{} {}, this run has {}", setting, made_with, given);
  };
  const auto on_off = [](bool value) { return std::string(value ? "on" : "off"); };
  for (const std::string& what :
       {differs(state.global_batch, job.batch.global_batch(), "global-batch"),
        differs(state.sequence, job.dataset->sequence_length(), "seq-len"), differs(state.seed, job.samples.seed, "seed"),
        differs(on_off(state.shuffle), on_off(job.samples.shuffle), "shuffle")})
    if (!what.empty()) return what;
  const std::uint64_t data = manifest.checksums ? data_fingerprint(*job.dataset) : sampled_fingerprint(*job.dataset);
  if (state.data == data) return "";
  if (state.samples != job.dataset->size())
    return fmt::format("other data, of {} samples, this run has {}", state.samples, job.dataset->size());
  return "other data, with the same number of samples";
}

void check_same_optimizer(const fs::path& checkpoint, const CheckpointState& state, const TrainJob& job) {
  const std::string& ours = job.optimizer.name;
  if (state.optimizer == ours) return;
  throw Error(
      ErrorKind::input, {"optimizer", ours},
      fmt::format("{} keeps the states of {}; take that optimizer, or begin a new run with the checkpoint as the model, "
                  "which takes its weights alone",
                  checkpoint.string(), state.optimizer));
}

// Errors of compressed gradients belong to their replicas. A run that begins to compress begins with errors of zero.
void check_same_compression(const fs::path& checkpoint, const CheckpointState& state, const TrainJob& job) {
  const std::string ours = compression_text(job);
  if (state.compression.empty() || state.compression == ours) return;
  throw Error(
      ErrorKind::input,
      fmt::format(
          "{}: holds errors of gradients compressed to {}, and this run has {}; give the same "
          "compress-gradients, replicas and zero, or begin a new run with the checkpoint as the model, which takes its weights alone",
          checkpoint.string(), state.compression, ours.empty() ? "none" : ours));
}

// Returns a note where the run keeps the base of its adapters in another form than the checkpoint's run did.
std::optional<std::string> other_base_note(const fs::path& checkpoint, const CheckpointState& state,
                                           const ModelConfig& config) {
  const std::string ours = name_of(config.base_form);
  if (state.base_form.value_or(ours) == ours) return {};
  const auto in_words = [](const std::string& form) {
    return form == name_of(WeightForm::plain) ? std::string("in the type of products") : "in " + form;
  };
  return fmt::format(
      "{} was trained on a base kept {}, and this run keeps the base {}: the adapters see other weights from here on; give the "
      "same base-precision to continue the run as it was",
      checkpoint.filename().string(), in_words(*state.base_form), in_words(ours));
}

void set_progress(const CheckpointState& state, TrainJob& job) {
  job.steps_done = state.step;
  job.first_loss = state.first_loss;
  job.last_loss = state.last_loss;
}

// Throws when the checkpoint belongs to another run.
void continue_from(const fs::path& checkpoint, const CheckpointManifest& manifest, std::vector<std::string>& notes,
                   TrainJob& job) {
  check_same_optimizer(checkpoint, manifest.state, job);
  check_same_compression(checkpoint, manifest.state, job);
  InitialState initial =
      open_checkpoint(checkpoint, manifest, job.config, job.config.adapter.exists() ? job.initial.weights : nullptr);
  if (const std::string difference = other_data(manifest, job); !difference.empty()) {
    throw Error(
        ErrorKind::input,
        fmt::format("{}: was made with {}; give the same, so that the data continues where it stopped, or begin a new run "
                    "with it as the model, which takes its weights alone",
                    checkpoint.string(), difference));
  }
  if (!manifest.checksums)
    notes.push_back(
        fmt::format("{} was saved by an earlier version, without checksums: damage to it, and small changes of the "
                    "data, go unnoticed",
                    checkpoint.filename().string()));
  if (auto note = other_base_note(checkpoint, manifest.state, job.config)) notes.push_back(std::move(*note));
  std::error_code ignored;
  if (fs::exists(checkpoint / multimodal_file, ignored))
    job.multimodal = multimodal_parts(checkpoint, job.multimodal ? job.multimodal->folder() : fs::path());
  job.checkpoint = checkpoint;
  job.initial = std::move(initial);
  set_progress(manifest.state, job);
}

void continue_from_kept(const KeptCheckpoint& kept, TrainJob& job) {
  const CheckpointContents& contents = kept.contents;
  job.multimodal = contents.multimodal;
  job.initial = open_kept(kept, job.config, job.config.adapter.exists() ? job.initial.weights : nullptr);
  set_progress(contents.state, job);
}

void go_on_from_loaded(const fs::path& checkpoint, std::vector<std::string>& notes, TrainJob& job) {
  std::error_code ignored;
  if (!fs::exists(checkpoint / checkpoint_state_file, ignored) && fs::is_directory(checkpoint, ignored)) {
    if (const auto inside = find_checkpoints(checkpoint); !inside.empty()) {
      throw Error(ErrorKind::input, {"load", checkpoint.string()},
                  fmt::format("is a folder of {}; give one of them, such as {}", counted(std::ssize(inside), "checkpoint"),
                              inside.back().string()));
    }
  }
  continue_from(checkpoint, verify_checkpoint(checkpoint), notes, job);
}

// Returns false when the folder holds no checkpoint.
bool go_on_from_newest(const fs::path& folder, std::vector<std::string>& notes, TrainJob& job) {
  const auto found = find_checkpoints(folder);
  std::optional<std::string> newest_fault;
  for (auto checkpoint = found.rbegin(); checkpoint != found.rend(); ++checkpoint) {
    std::optional<CheckpointManifest> manifest;
    try {
      manifest = verify_checkpoint(*checkpoint);
      continue_from(*checkpoint, *manifest, notes, job);
      return true;
    } catch (const Error& error) {
      // A checkpoint whose checksums match belongs to another run. Without checksums, another seed, say, may be damage.
      const bool proven = manifest && manifest->checksums;
      if (error.kind() != ErrorKind::input || proven) throw;
      notes.push_back(fmt::format("{} is skipped: {}", checkpoint->filename().string(), error.what()));
      if (!newest_fault) newest_fault = error.what();
    }
  }
  if (!newest_fault) return false;
  throw Error(ErrorKind::input, {"save", folder.string()},
              fmt::format("holds {}, but resume can continue from none; the newest: {}; to start afresh give another folder",
                          counted(std::ssize(found), "checkpoint"), *newest_fault));
}

// Returns the state of a checkpoint that this run could continue from, as far as state.json shows.
std::optional<CheckpointState> state_of_this_run(const fs::path& checkpoint, const TrainJob& job) {
  try {
    const CheckpointManifest manifest = read_manifest(checkpoint / checkpoint_state_file);
    if (manifest.state.optimizer == job.optimizer.name && same_model(read_hf_config(checkpoint), job.config) &&
        other_data(manifest, job).empty())
      return manifest.state;
  } catch (const Error&) {  // any failure means that it is another run's
  }
  return {};
}

}  // namespace

void refuse_used_folder(const SavingSettings& saving, const TrainJob& job, const RunLength& length) {
  if (saving.resume) return;
  const auto found = find_checkpoints(*saving.folder);
  std::error_code ignored;
  // A run that continues from the newest checkpoint is the same run, whichever option names it.
  if (found.empty() || (saving.load && fs::equivalent(*saving.load, found.back(), ignored))) return;
  const std::string newest = found.back().filename().string();
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorKind::input, {"save", saving.folder->string()}, what + ", or give another folder");
  };
  const auto state = state_of_this_run(found.back(), job);
  if (!state)
    refuse(
        fmt::format("holds checkpoints of another run, the newest {}; continue from it with its settings and resume", newest));
  if (length.ends(state->step, state->last_loss.value_or(state->first_loss), state->first_loss))
    refuse(fmt::format("this run has finished there, with {}; continue from it with more steps and resume", newest));
  refuse(fmt::format("holds checkpoints of this run, the newest {}; continue from it with resume", newest));
}

void set_initial_state(const RunSettings& settings, std::vector<std::string>& notes, TrainJob& job) {
  const SavingSettings& saving = settings.saving;
  if (job.config.adapter.exists()) {
    job.initial.weights = base_weights(settings.model, notes, job);
    job.base = base_fingerprint(base_model(job.config), *job.initial.weights);
  }
  if (const auto kept = job.kept ? job.kept->held() : nullptr) return continue_from_kept(*kept, job);
  if (saving.verified && !saving.verified->empty())
    return continue_from(*saving.verified, read_manifest(*saving.verified / checkpoint_state_file), notes, job);
  if (saving.load && !saving.verified) return go_on_from_loaded(*saving.load, notes, job);
  if (saving.resume && !saving.verified && go_on_from_newest(*saving.folder, notes, job)) return;
  if (!job.initial.weights) job.initial.weights = base_weights(settings.model, notes, job);
  job.initial.weights = with_initial_adapter(settings.model, job, std::move(job.initial.weights));
}

}  // namespace pipetrain
