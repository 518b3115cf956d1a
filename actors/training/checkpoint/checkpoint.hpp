// A checkpoint on disk, DIR/step-00000010/ (format 4): config.json; a safetensors file for each rank that stores something for
// the run, with its parts of the weights and of the optimizer's states (model/weights/tensor_piece.hpp); and state.json,
// written last, with the state of the run and the checksums of all files. Any layout can continue from it: a rank reads the
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

struct KeptCheckpoint;

// Reads every byte of a checkpoint. Throws Error(input) that names the file, and the tensor if it is one, when
// something is missing, unreadable or not as saved. Format 2 has no checksums: only names, types, shapes and offsets of
// its tensors are checked.
CheckpointManifest verify_checkpoint(const std::filesystem::path& checkpoint);
// Opens the tensors of a verified checkpoint in the files that its manifest names. Throws Error(input) when it is of
// another model.
// base: the weights of the model without adapters, which a checkpoint of adapters lacks; null where there are no adapters.
InitialState open_checkpoint(const std::filesystem::path& checkpoint, const CheckpointManifest& manifest,
                             const ModelConfig& config, std::shared_ptr<const WeightSource> base = nullptr);
// Does the same with the states of the same run in this process.
InitialState open_kept(const KeptCheckpoint& kept, const ModelConfig& config, std::shared_ptr<const WeightSource> base);
// Returns the model of a checkpoint, with its adapters. Throws Error(input).
ModelConfig read_checkpoint_config(const std::filesystem::path& checkpoint);

// Verifies a folder of weights if it is a checkpoint, without the optimizer's states. Throws Error(input).
void verify_weights_of_checkpoint(const std::filesystem::path& folder);

// Returns why this folder is no complete checkpoint, or no value when it is one. Reads everything but the tensors' values.
std::optional<std::string> checkpoint_fault(const std::filesystem::path& checkpoint);

}  // namespace pipetrain
