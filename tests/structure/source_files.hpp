// Lists the repository's C++ files, for tests of its structure.
#pragma once

#include <string>
#include <vector>

namespace pipetrain::structure {

// Paths relative to the root, sorted: of all rooms, benchmarks, tests and examples.
std::vector<std::string> source_files();
std::string text_of(const std::string& path);

// An #include line: the name as written, and whether it is in quotes, as our own headers are, or in angle brackets.
struct Include {
  std::string name;
  bool in_quotes;
};
std::vector<Include> includes_of(const std::string& path);

}  // namespace pipetrain::structure
