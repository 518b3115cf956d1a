#include "structure/source_files.hpp"
#include "paths.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>

namespace pipetrain::structure {

namespace fs = std::filesystem;

std::vector<std::string> source_files() {
  static const std::set<std::string> extensions{".hpp", ".cpp", ".cu", ".cuh", ".h"};
  const fs::path root = source_folder();
  std::vector<std::string> paths;
  for (const char* folder : {"actors", "apps", "bench", "bindings", "comm", "core", "data", "examples", "files", "include",
                             "model", "ops", "records", "schedules", "tests", "tuning"}) {
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

std::vector<Include> includes_of(const std::string& path) {
  static const std::regex include(R"re(\s*#\s*include\s*([<"])([^>"]+)[>"].*)re");
  std::vector<Include> includes;
  std::istringstream lines(text_of(path));
  std::smatch match;
  for (std::string line; std::getline(lines, line);)
    if (line.find("include") != line.npos && std::regex_match(line, match, include))
      includes.push_back({match[2].str(), match[1].str() == "\""});
  return includes;
}

}  // namespace pipetrain::structure
