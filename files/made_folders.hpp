// Makes folders for files that are about to be written, and removes them if nothing is written.
#pragma once

#include <filesystem>
#include <system_error>
#include <vector>

namespace pipetrain {

// Makes the folder and missing folders above it. Returns those that were missing, the deepest first. If `error` says
// why the folder could not be made, some of them may exist.
std::vector<std::filesystem::path> make_folders(const std::filesystem::path& folder, std::error_code& error);

// Removes those that are empty, in this order. Async-signal-safe.
void remove_empty_folders(const std::vector<std::filesystem::path>& folders) noexcept;

}  // namespace pipetrain
