#include "structure/source_files.hpp"
#include "paths.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

namespace pipetrain::structure {

namespace fs = std::filesystem;

std::vector<std::string> source_files() {
  static const std::set<std::string> extensions{".hpp", ".cpp", ".cu", ".cuh", ".h"};
  const fs::path root = source_folder();
  std::vector<std::string> paths;
  for (const char* folder : {"actors", "apps", "bench", "bindings", "comm", "core", "data", "examples", "files", "include",
                             "model", "ops", "schedules", "tests", "tuning"}) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (extensions.count(entry.path().extension().string()) > 0)
        paths.push_back(fs::relative(entry.path(), root).generic_string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string text_of(const std::string& path) {
  std::ifstream in(fs::path(source_folder()) / path);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace pipetrain::structure
