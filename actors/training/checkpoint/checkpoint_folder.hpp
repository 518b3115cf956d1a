// A folder of checkpoints: DIR/step-00000010, ...
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace pipetrain {

// Returns DIR/step-00000010.
std::filesystem::path checkpoint_path(const std::filesystem::path& folder, std::int64_t step);
// Returns the step in such a name; no value for other names.
std::optional<std::int64_t> checkpoint_step(const std::filesystem::path& path);
// Returns all entries of a folder that are named as checkpoints, complete or not, oldest first; none where there is no
// folder. Throws Error(input) when the folder cannot be read.
std::vector<std::filesystem::path> find_checkpoints(const std::filesystem::path& folder);

// The checkpoints that stay when a new one has been saved.
struct KeptCheckpoints {
  std::optional<std::int64_t> newest;  // how many of the newest complete ones; no value: all
  std::optional<std::int64_t> every;   // also those of steps that are multiples of this
};
// Removes the checkpoints up to `step`, which was just saved, that are not to stay. Later ones, which the run passed over, are
// neither counted nor removed. A checkpoint is renamed before it is removed, so that its name never stands for half of one.
void remove_old_checkpoints(const std::filesystem::path& folder, std::int64_t step, const KeptCheckpoints& kept);
// Removes half-written and half-removed checkpoints of a killed run. No other run may be saving there.
void remove_unfinished_checkpoints(const std::filesystem::path& folder);
// Puts back checkpoints that a killed run had moved aside to replace them. No other run may be saving there. Throws
// Error(input).
void restore_replaced_checkpoints(const std::filesystem::path& folder);

}  // namespace pipetrain
