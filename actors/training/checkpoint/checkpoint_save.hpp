// Writing a checkpoint: every rank writes its file, in the process that it runs in, while training goes on; then what makes the
// checkpoint whole is written, and the folder appears under its name.
#pragma once

#include <filesystem>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include "actors/training/checkpoint/checkpoint_state.hpp"
#include "model/config/config.hpp"

namespace pipetrain {

// What lies beside the ranks' files.
struct CheckpointContents {
  ModelConfig config;
  CheckpointState state;
  std::vector<std::filesystem::path> companions;  // copied: companion_files.hpp
  // Called on another thread before the folder appears under its name: what it throws is why it does not. May be null.
  std::function<void()> check_folder = nullptr;
};

// Lets every rank write its file to this folder: their reports (rank_file.hpp), once all have ended.
using WriteRanks = std::function<std::future<std::vector<std::string>>(const std::string& folder)>;

// FOLDER/step-NNNNNNNN, in the place of one of the same step. The future is ready once it is durable, or throws why it is not:
// an Error that names the file it would have been; then nothing of it stays, and what was there before stays. What can be told
// at once (a folder that cannot be made) is thrown here. The future's destructor waits.
std::future<void> start_checkpoint(const std::filesystem::path& folder, const CheckpointContents& contents,
                                   const WriteRanks& write_ranks);

}  // namespace pipetrain
