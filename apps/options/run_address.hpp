// The file in the save folder of an elastic run that says where processes may join it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace pipetrain {

struct RunAddress {
  std::string door;   // "127.0.0.1:40123", of process 0
  std::string token;  // of the run; may be empty
};

// Writes the file whole or not at all; only its owner can read it. Throws Error(unavailable).
void write_run_address(const std::filesystem::path& folder, const RunAddress& address);
// Returns no value where the folder has no such file, or a damaged one.
std::optional<RunAddress> read_run_address(const std::filesystem::path& folder);
void remove_run_address(const std::filesystem::path& folder);

}  // namespace pipetrain
