// state.json of a checkpoint: where the run was, and the checksums of all that lies beside it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "model/optimizer/loss_scale.hpp"
#include "model/weights/safetensors_checksums.hpp"

namespace pipetrain {

struct CheckpointState {
  std::int64_t step = 0;                     // done
  std::int64_t applied_steps = 0;            // of them, those the optimizer applied
  std::string optimizer = "adamw";           // its name; checkpoints without one are of AdamW
  double first_loss = 0;                     // of the first step that had one; 0 where none has yet
  std::optional<double> last_loss;           // of the last such step; checkpoints of format 2 lack it
  std::optional<LossScaleState> loss_scale;  // where it is dynamic
  // What decides which samples come next: another run that goes on must have the same.
  std::int64_t global_batch = 0, sequence = 0;
  std::uint64_t seed = 0;
  bool shuffle = true;
  std::int64_t samples = 0;  // in one epoch
  std::uint64_t data = 0;    // data_fingerprint(), or sampled_fingerprint() in format 2
};

struct CheckpointChecksums {
  // Of config.json, and of companions (companion_files.hpp), by name.
  std::map<std::string, std::uint64_t> small_files;
  std::map<std::string, SafetensorsChecksums> tensors;  // by the name of the file
};

enum class CheckpointFormat {
  without_checksums = 2,  // a file of full tensors for each state; of earlier builds
  full_tensors = 3,       // likewise, with checksums, also of state.json itself
  rank_files = 4,         // a file for each rank, with checksums
};

// What state.json holds.
struct CheckpointManifest {
  CheckpointState state;
  std::optional<CheckpointChecksums> checksums;
  CheckpointFormat format = CheckpointFormat::rank_files;
};

inline constexpr const char* checkpoint_state_file = "state.json";

// Writes format 4: the checksums must be there. On disk when it returns. Throws Error(input), also for what read_manifest()
// would not read.
void write_manifest(const std::filesystem::path& file, const CheckpointManifest& manifest);
// Of at most 64 MiB and a million JSON values. Throws Error(input) naming the file when a byte of it is not what was written
// (from format 3 on), a key is missing or has a value that cannot be, or the format is a later one.
CheckpointManifest read_manifest(const std::filesystem::path& file);

}  // namespace pipetrain
