// The commands of docs/tutorials/ run as written.
#include <fstream>

#include "catch.hpp"
#include "paths.hpp"
#include "pipetrain_program.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

const fs::path root = fs::path(test_data()).parent_path();

// Returns the ```sh blocks of a page, joined.
std::string commands_of(const fs::path& page) {
  std::string commands, line;
  std::ifstream file(page);
  for (bool inside = false; std::getline(file, line);) {
    if (inside && line != "```") commands += line + "\n";
    if (line.starts_with("```")) inside = line == "```sh";
  }
  return commands;
}

// Makes a folder that looks like the repository's root after a build.
void link_repository(const fs::path& folder) {
  for (const char* name : {"docs", "data", "tests", "examples"}) fs::create_directory_symlink(root / name, folder / name);
  fs::create_directory(folder / "build");
  fs::create_symlink(program_path(), folder / "build/pipetrain");
}

}  // namespace

TEST_CASE("the tutorials run as written", "[slow][tutorials]") {
  int pages = 0;
  for (const auto& entry : fs::directory_iterator(root / "docs/tutorials")) {
    if (entry.path().extension() != ".md") continue;
    INFO(entry.path().string());
    const std::string commands = commands_of(entry.path());
    REQUIRE(!commands.empty());
    const TempFolder folder;
    link_repository(folder.path());
    std::ofstream(folder.path() / "commands.sh") << "set -e\n" << commands;
    const Result result = run_program("/bin/sh", "-c 'cd \"" + folder.path().string() + "\" && exec sh commands.sh'");
    INFO(result.out << result.err);
    CHECK(result.status == 0);
    CHECK(result.err.find("pipetrain: error") == std::string::npos);
    ++pages;
  }
  CHECK(pages > 0);
}

}  // namespace pipetrain
