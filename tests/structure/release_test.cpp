// The version of a release is in CMakeLists.txt; the changelog and the pages carry it too.
#include <algorithm>
#include <filesystem>
#include <regex>
#include <string>

#include "catch.hpp"
#include "paths.hpp"
#include "run_program.hpp"
#include "skip.hpp"
#include "structure/source_files.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;
using structure::text_of;

namespace {

std::string version() {
  std::smatch match;
  const std::string text = text_of("CMakeLists.txt");
  REQUIRE(std::regex_search(text, match, std::regex(R"(project\(pipetrain VERSION ([0-9]+\.[0-9]+\.[0-9]+) )")));
  return match[1];
}

}  // namespace

TEST_CASE("the changelog's newest release, with its date, is the version that is built") {
  const std::string text = text_of("CHANGELOG.md");
  std::smatch match;
  REQUIRE(std::regex_search(text, match, std::regex(R"(\n## \[([^\]]*)\](?: - (\d{4}-\d\d-\d\d))?\n)")));
  CHECK((match[1] == version() || match[1] == "Unreleased"));
  if (match[1] != "Unreleased") CHECK(match[2].matched);
}

TEST_CASE("the page of installation names the packages of this version") {
  const std::string page = text_of("docs/install.md");
  for (const std::string& name :
       {"pipetrain-" + version() + "-cp", "pipetrain_" + version() + "_", "pipetrain-" + version() + "-linux-"})
    CHECK_THAT(page, Contains(name));
}

TEST_CASE("the program prints the version that is built") {
  const std::string program = build_folder() + "/pipetrain";
  if (!std::filesystem::exists(program)) return test::skip("the program is not built");
  CHECK(run_program(program, "--version").out == "pipetrain " + version() + "\n");
}
