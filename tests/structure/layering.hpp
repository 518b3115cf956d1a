// Reads the sources of the rooms and says which lines break the plan of the house (docs/architecture.md).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace pipetrain::structure {

// Every violation under the repository root, as "file:line: what is wrong", in path order; empty when all is well. Checked are
// who includes whom, the external libraries each room may name, files that hold device code, and names used twice in a room.
std::vector<std::string> violations(const std::filesystem::path& root);

}  // namespace pipetrain::structure
