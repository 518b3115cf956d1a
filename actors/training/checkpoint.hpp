// Checkpoints on disk. DIR/step-00000010/ holds the model as a Hugging Face folder would (config.json, model.safetensors),
// the optimizer's states under the same names (of AdamW exp_avg.safetensors, exp_avg_sq.safetensors) and state.json, with
// checksums of all. Everything is full logical tensors, so it does not depend on the layout. A checkpoint appears whole or not
// at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/training/checkpoint_state.hpp"
#include "actors/training/rank_setup.hpp"
#include "model/config.hpp"

namespace pipetrain {

// fill(name, i, out) gives the full tensor logical_tensors(config)[i] of the state of this name: weights_state or one of
// Optimizer::states(). Replaces a checkpoint of the same step. Throws
// Error(input) when the disk is full or the place cannot be written; nothing half-written stays.
void save_checkpoint(const std::filesystem::path& folder, const ModelConfig& config, const CheckpointState& state,
                     const std::function<void(const std::string& name, std::size_t, float*)>& fill);

// Reads a whole checkpoint, every byte. Throws Error(input) that names the file, and the tensor where it is one, when something
// is missing, cannot be read or is not what was saved. A checkpoint of format 2 has no checksums: of its tensors only names,
// types, shapes and places are checked.
CheckpointManifest verify_checkpoint(const std::filesystem::path& checkpoint);
// The same of the weights alone, where a checkpoint is read as the model folder that it is as well; nothing for other folders.
void verify_weights_of_checkpoint(const std::filesystem::path& folder);
// The tensors of a checkpoint that was verified. Throws Error(input) when it is one of another model.
InitialState open_checkpoint(const std::filesystem::path& checkpoint, const CheckpointState& state, const ModelConfig& config);

// Why this folder is no complete checkpoint, or nothing when it is one: everything but the tensors' values is read.
std::optional<std::string> checkpoint_fault(const std::filesystem::path& checkpoint);

// DIR/step-00000010
std::filesystem::path checkpoint_path(const std::filesystem::path& folder, std::int64_t step);
// What is named as a checkpoint in a folder, complete or not, oldest first; none where there is no folder. Throws Error(input)
// when the folder cannot be read.
std::vector<std::filesystem::path> find_checkpoints(const std::filesystem::path& folder);
// Of the checkpoints up to `step`, which was just saved, removes all that are older than the newest `keep` complete ones. Later
// ones, which were passed over, neither count nor go. What goes loses its name first, so that no half of one is left under it.
void remove_old_checkpoints(const std::filesystem::path& folder, std::int64_t step, std::int64_t keep);
// What a killed run left: removes the half-written and the half-removed ones. No other run may be saving there.
void remove_unfinished_checkpoints(const std::filesystem::path& folder);
// Puts checkpoints back that a killed run had moved aside to replace them. No other run may be saving there. Throws
// Error(input).
void restore_replaced_checkpoints(const std::filesystem::path& folder);

}  // namespace pipetrain
