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

// A repository with one commit of these files, in which the functions of scripts/release.sh can be called.
class Repository {
 public:
  explicit Repository(const std::string& changelog) {
    folder_.write("CMakeLists.txt", "project(pipetrain VERSION 1.2.3 LANGUAGES CXX)\n");
    folder_.write("CHANGELOG.md", changelog);
    REQUIRE(call("git init -q . && git add -A && git -c user.name=a -c user.email=a@b commit -q -m files").status == 0);
  }
  const TempFolder& folder() const { return folder_; }
  pipetrain::Result call(const std::string& words) const {
    const std::string begin = "set -euo pipefail; die() { echo \"dev: error: $*\" >&2; exit 2; }; cd \"" +
                              folder_.path().string() + "\"; root=$PWD; real=\"" + source_folder() +
                              "\"; root=$real source \"$real/scripts/release.sh\"; ";
    return pipetrain::run_program("/bin/bash", "-c '" + begin + words + "'");
  }

 private:
  TempFolder folder_;
};

}  // namespace

TEST_CASE("./dev release asks for a commit without changes and a dated changelog") {
  const Repository undated("# Changelog\n\n## [Unreleased]\n");
  CHECK_THAT(undated.call("check_release 1.2.3").err, Contains("begins with") && Contains("## [1.2.3] - "));
  const Repository dated("# Changelog\n\n## [1.2.3] - 2026-01-31\n");
  CHECK(dated.call("check_release $(package_version)").status == 0);
  CHECK_THAT(dated.call("check_release 1.2.4").err, Contains("make it"));
  CHECK(dated
            .call("release_source 1.2.3 $root.a; release_source 1.2.3 $root.b; cmp $root.a $root.b; "
                  "tar tzf $root.a | grep -x pipetrain-1.2.3/CHANGELOG.md >/dev/null; rm $root.a $root.b")
            .status == 0);
  dated.folder().write("new", "");
  const pipetrain::Result changed = dated.call("check_release 1.2.3");
  CHECK(changed.status == 2);
  CHECK_THAT(changed.err, Contains("changes that no commit has"));
}

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
  CHECK(pipetrain::run_program(program, "--version").out == "pipetrain " + version() + "\n");
}
