// Writes a checkpoint while training goes on: every rank writes its file in its own process; then the remaining files
// are written, and the folder appears under its name.
#pragma once

#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "actors/training/checkpoint/checkpoint_state.hpp"
#include "actors/training/job/train_job.hpp"
#include "model/config/config.hpp"
#include "model/weights/multimodal_parts.hpp"

namespace pipetrain {

// The files of a checkpoint besides those of the ranks.
struct CheckpointContents {
  ModelConfig config;
  CheckpointState state;
  std::vector<std::filesystem::path> companions;      // files to copy: companion_files.hpp
  std::shared_ptr<const MultimodalParts> multimodal;  // recorded, so that exports can add them; may be null
  std::string base;                                   // with adapters: the name of the model that they belong to; may be empty
  // Called on another thread before the folder appears under its name; an exception prevents that and is the failure.
  // May be null.
  std::function<void()> check_folder = nullptr;
};

// Returns what the job decides of them: the state has neither progress nor the fingerprint of the data, which takes long to
// compute.
CheckpointContents contents_of(const TrainJob& job);

// Makes every rank write its file to this folder. The future holds their reports (rank_file.hpp) once all have ended.
using WriteRanks = std::function<std::future<std::vector<std::string>>(const std::string& folder)>;

// Writes FOLDER/step-NNNNNNNN, replacing one of the same step. The future is ready once the checkpoint is durable, or
// throws an Error that names the final file; nothing of the new checkpoint stays then, and the old one does. A folder
// that cannot be made is thrown here. The future's destructor waits.
std::future<void> start_checkpoint(const std::filesystem::path& folder, const CheckpointContents& contents,
                                   const WriteRanks& write_ranks);

}  // namespace pipetrain
