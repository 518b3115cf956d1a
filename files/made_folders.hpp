// Folders that are made for what is about to be written, and taken back where nothing is.
#pragma once

#include <filesystem>
#include <system_error>
#include <vector>

namespace pipetrain {

// Makes the folder and what is missing above it. Returns what was missing, the deepest first; where `error` says why the folder
// could not be made, some of it may be there.
std::vector<std::filesystem::path> make_folders(const std::filesystem::path& folder, std::error_code& error);

// Removes those that are empty, in this order. Async-signal-safe.
void remove_empty_folders(const std::vector<std::filesystem::path>& folders) noexcept;

}  // namespace pipetrain
