// Checkpoints on disk. DIR/step-00000010/ holds the model as a Hugging Face folder would (config.json, model.safetensors),
// AdamW's moments under the same names (exp_avg.safetensors, exp_avg_sq.safetensors) and state.json. Everything is full logical
// tensors, so it does not depend on the layout. A checkpoint appears whole or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "actors/training/rank_compute.hpp"
#include "model/config.hpp"

namespace pipetrain {

struct CheckpointState {
  std::int64_t step = 0;           // done
  std::int64_t applied_steps = 0;  // of them, those the optimizer applied
  double first_loss = 0;           // of step 1
  // What decides which samples come next: another run that goes on must have the same.
  std::int64_t global_batch = 0, sequence = 0;
  std::uint64_t seed = 0;
  bool shuffle = true;
};

// fill(kind, i, out) gives the full tensor logical_tensors(config)[i]. Replaces a checkpoint of the same step. Throws
// Error(input) when the disk is full or the place cannot be written; nothing half-written stays.
void save_checkpoint(const std::filesystem::path& folder, const ModelConfig& config, const CheckpointState& state,
                     const std::function<void(StateKind, std::size_t, float*)>& fill);

struct Checkpoint {
  CheckpointState state;
  InitialState initial;
};
// Throws Error(input) when it is no whole checkpoint, or one of another model.
Checkpoint open_checkpoint(const std::filesystem::path& checkpoint, const ModelConfig& config);

// DIR/step-00000010
std::filesystem::path checkpoint_path(const std::filesystem::path& folder, std::int64_t step);
// The complete checkpoints in a folder, oldest first.
std::vector<std::filesystem::path> find_checkpoints(const std::filesystem::path& folder);
// Removes all but the newest `keep`.
void remove_old_checkpoints(const std::filesystem::path& folder, std::int64_t keep);

}  // namespace pipetrain
