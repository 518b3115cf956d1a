// Checkpoints on disk. DIR/step-00000010/ holds the model as a Hugging Face folder would (config.json, model.safetensors),
// AdamW's moments under the same names (exp_avg.safetensors, exp_avg_sq.safetensors) and state.json. Everything is full logical
// tensors, so it does not depend on the layout. A checkpoint appears whole or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
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
  std::int64_t samples = 0;  // in one epoch
  std::uint64_t data = 0;    // data_fingerprint()
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

// Why this folder is no complete checkpoint, or nothing when it is one: everything but the tensors' values is read.
std::optional<std::string> checkpoint_fault(const std::filesystem::path& checkpoint);

// DIR/step-00000010
std::filesystem::path checkpoint_path(const std::filesystem::path& folder, std::int64_t step);
// What is named as a checkpoint in a folder, complete or not, oldest first.
std::vector<std::filesystem::path> find_checkpoints(const std::filesystem::path& folder);
// Removes all that are older than the newest `keep` complete ones.
void remove_old_checkpoints(const std::filesystem::path& folder, std::int64_t keep);
// Removes the half-written ones that a killed run left. No other run may be saving there.
void remove_unfinished_checkpoints(const std::filesystem::path& folder);

}  // namespace pipetrain
