// The repository's C++ files, for tests of its structure.
#pragma once

#include <string>
#include <vector>

namespace pipetrain::structure {

// Paths relative to the root, sorted: of all rooms, benchmarks, tests and examples.
std::vector<std::string> source_files();
std::string text_of(const std::string& path);

}  // namespace pipetrain::structure
