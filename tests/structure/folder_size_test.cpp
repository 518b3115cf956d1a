// A folder is small enough for a reader to grasp: it has the files of one concept.
#include <filesystem>
#include <map>
#include <string>

#include "catch.hpp"
#include "structure/source_files.hpp"

using namespace pipetrain::structure;

TEST_CASE("no folder holds more than 45 source files") {
  std::map<std::string, int> files;
  for (const std::string& path : source_files()) ++files[std::filesystem::path(path).parent_path().string()];
  CHECK(files.size() > 40);
  for (const auto& [folder, count] : files) {
    INFO(folder << ": give it folders, see CONTRIBUTING.md");
    CHECK(count <= 45);
  }
}
