// state.json of a checkpoint: the state of the run, and the checksums of all other files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/config/trained_parts.hpp"
#include "model/optimizer/loss_scale.hpp"
#include "model/optimizer/variance_warm_up.hpp"
#include "model/weights/safetensors_checksums.hpp"

namespace pipetrain {

struct CheckpointState {
  std::int64_t step = 0;            // steps done
  std::int64_t applied_steps = 0;   // those of them that the optimizer applied
  std::string optimizer = "adamw";  // its name; checkpoints without one are of AdamW
  TrainedParts trained;             // the optimizer has states for these alone
  // With adapters: the fingerprint of the model that they belong to, whose weights the checkpoint lacks.
  std::optional<std::uint64_t> base;
  // The form of the frozen matrices (name_of()); none where nothing could be quantised, and in older checkpoints.
  std::optional<std::string> base_form;
  // The replicas whose errors of compressed gradients it holds, in words such as "int8 over 2 replicas, zero 0"; empty: none.
  std::string compression = {};
  double first_loss = 0;                               // of the first step that had a loss; 0 before that
  std::optional<double> last_loss;                     // of the last step that had a loss; checkpoints of format 2 lack it
  std::optional<LossScaleState> loss_scale;            // where it is dynamic
  std::optional<VarianceState> variance = {};          // of gradients in 1 bit
  std::vector<std::vector<float>> expert_biases = {};  // by routed layer and expert; empty: no expert has one
  // These values decide which samples come next: a run that continues from the checkpoint must have the same.
  std::int64_t global_batch = 0, sequence = 0;
  std::uint64_t seed = 0;
  bool shuffle = true;
  std::int64_t samples = 0;  // in one epoch
  std::uint64_t data = 0;    // data_fingerprint(), or sampled_fingerprint() in format 2
};

struct CheckpointChecksums {
  // Checksums of config.json and of companions (companion_files.hpp), by name.
  std::map<std::string, std::uint64_t> small_files;
  std::map<std::string, SafetensorsChecksums> tensors;  // by the name of the file
};

enum class CheckpointFormat {
  without_checksums = 2,  // a file of full tensors for each state; of earlier builds
  full_tensors = 3,       // as before, with checksums, also of state.json itself
  rank_files = 4,         // a file for each rank, with checksums
};

// The contents of state.json.
struct CheckpointManifest {
  CheckpointState state;
  std::optional<CheckpointChecksums> checksums;
  CheckpointFormat format = CheckpointFormat::rank_files;
};

inline constexpr const char* checkpoint_state_file = "state.json";

// Writes format 4, which needs the checksums. The file is on disk when it returns. Throws Error(input), also for
// anything that read_manifest() would refuse.
void write_manifest(const std::filesystem::path& file, const CheckpointManifest& manifest);
// Reads at most 64 MiB and a million JSON values. Throws Error(input) naming the file when any byte differs from what
// was written (from format 3 on), a key is missing or has an impossible value, or the format is a later one.
CheckpointManifest read_manifest(const std::filesystem::path& file);

}  // namespace pipetrain
