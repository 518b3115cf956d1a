// The properties of a model family are in one file and in the tables that list families. Code elsewhere that
// distinguishes families would have to change with each new one.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "catch.hpp"
#include "paths.hpp"

namespace fs = std::filesystem;

namespace {

std::string code_of(const fs::path& file) {
  std::ifstream in(file);
  std::ostringstream code;
  for (std::string line; std::getline(in, line);) code << line.substr(0, line.find("//")) << '\n';
  return code.str();
}

// Returns paths relative to the root, of all rooms that run a model.
std::vector<std::string> sources() {
  std::vector<std::string> paths;
  for (const char* room : {"ops", "model", "actors", "apps"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(pipetrain::source_folder()) / room)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".cpp" && extension != ".hpp" && extension != ".cu" && extension != ".cuh") continue;
      paths.push_back(fs::relative(entry.path(), pipetrain::source_folder()).generic_string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

TEST_CASE("only the files that docs/add-a-model.md lists distinguish model families") {
  const std::set<std::string> of_gpt2{"model/families/gpt2.cpp", "model/families/families.cpp", "model/families/presets.cpp"};
  std::set<std::string> found;
  for (const std::string& path : sources()) {
    const std::string code = code_of(fs::path(pipetrain::source_folder()) / path);
    // The default of a configuration is a Llama.
    const bool names_one = code.find("Family::gpt2") != std::string::npos || code.find("gpt2_family") != std::string::npos;
    const bool compares = code.find(".family ==") != std::string::npos || code.find(".family !=") != std::string::npos ||
                          code.find("switch (config.family") != std::string::npos;
    if (names_one && path != "model/weights/llmc_model.cpp") found.insert(path);  // a format that has no other family
    INFO(path);
    CHECK((!compares || path == "model/families/families.cpp"));
  }
  CHECK(found == of_gpt2);
}
