// A checkpoint on disk, DIR/step-00000010/ (format 4): config.json, a safetensors file of every rank that holds something on
// behalf of the run, with its parts of the weights and of the optimizer's states (model/weights/tensor_piece.hpp), and
// state.json, with where the run was and checksums of all, which makes it whole. Any layout goes on from it: a rank reads the
// parts that its own slices need. Formats 2 and 3, of earlier builds, have a file of full tensors for each state.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "actors/training/checkpoint/checkpoint_state.hpp"
#include "actors/training/job/train_job.hpp"
#include "model/config/config.hpp"

namespace pipetrain {

// Reads a whole checkpoint, every byte. Throws Error(input) that names the file, and the tensor where it is one, when something
// is missing, cannot be read or is not what was saved. A checkpoint of format 2 has no checksums: of its tensors only names,
// types, shapes and places are checked.
CheckpointManifest verify_checkpoint(const std::filesystem::path& checkpoint);
// The tensors of a checkpoint that was verified, in the files that its manifest names. Throws Error(input) when it is one of
// another model.
InitialState open_checkpoint(const std::filesystem::path& checkpoint, const CheckpointManifest& manifest,
                             const ModelConfig& config);

// Of a folder of weights to begin with, what is a checkpoint is verified first: its weights alone. Throws Error(input).
void verify_weights_of_checkpoint(const std::filesystem::path& folder);

// Why this folder is no complete checkpoint, or nothing when it is one: everything but the tensors' values is read.
std::optional<std::string> checkpoint_fault(const std::filesystem::path& checkpoint);

}  // namespace pipetrain
