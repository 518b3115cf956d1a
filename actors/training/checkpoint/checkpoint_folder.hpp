// A folder of checkpoints: DIR/step-00000010, ...
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace pipetrain {

// DIR/step-00000010
std::filesystem::path checkpoint_path(const std::filesystem::path& folder, std::int64_t step);
// The step in such a name; nothing for other names.
std::optional<std::int64_t> checkpoint_step(const std::filesystem::path& path);
// What is named as a checkpoint in a folder, complete or not, oldest first; none where there is no folder. Throws Error(input)
// when the folder cannot be read.
std::vector<std::filesystem::path> find_checkpoints(const std::filesystem::path& folder);

// Which checkpoints stay when a new one has been saved.
struct KeptCheckpoints {
  std::optional<std::int64_t> newest;  // as many of the newest complete ones; not given: all
  std::optional<std::int64_t> every;   // and those of steps that are multiples of this
};
// Of the checkpoints up to `step`, which was just saved, removes all that are not to stay. Later ones, which were passed over,
// neither count nor go. What goes loses its name first, so that no half of one is left under it.
void remove_old_checkpoints(const std::filesystem::path& folder, std::int64_t step, const KeptCheckpoints& kept);
// What a killed run left: removes the half-written and the half-removed ones. No other run may be saving there.
void remove_unfinished_checkpoints(const std::filesystem::path& folder);
// Puts checkpoints back that a killed run had moved aside to replace them. No other run may be saving there. Throws
// Error(input).
void restore_replaced_checkpoints(const std::filesystem::path& folder);

}  // namespace pipetrain
