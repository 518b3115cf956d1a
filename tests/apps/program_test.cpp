// The program itself: exit status, and what stands on stdout and stderr.
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "catch.hpp"
#include "data/test_files.hpp"

using pipetrain::test::TemporaryFolder;

namespace {

struct Result {
  int status = -1;
  std::string out, err;
};

Result run(const std::string& arguments, const std::string& variables = "") {
  TemporaryFolder folder;
  const std::string out = (folder.path() / "out").string(), err = (folder.path() / "err").string();
  const std::string command = variables + " '" PIPETRAIN_PROGRAM "' " + arguments + " > '" + out + "' 2> '" + err + "'";
  Result result;
  const int status = std::system(command.c_str());
  if (WIFEXITED(status)) result.status = WEXITSTATUS(status);
  for (auto [path, text] : {std::pair{out, &result.out}, std::pair{err, &result.err}}) {
    std::ostringstream stream;
    stream << std::ifstream(path).rdbuf();
    *text = stream.str();
  }
  return result;
}

using Catch::Matchers::StartsWith;

}  // namespace

TEST_CASE("help and version go to stdout") {
  for (const char* arguments : {"--help", "train --help", "help", "--pp 2 -h"}) {
    const Result help = run(arguments);
    CHECK(help.status == 0);
    CHECK_THAT(help.out, StartsWith("pipetrain [train] OPTIONS\n"));
    CHECK(help.err.empty());
  }
  const Result version = run("--version");
  CHECK(version.status == 0);
  CHECK_THAT(version.out, StartsWith("pipetrain 0."));
}

TEST_CASE("a wrong command line is one line on stderr, and exit status 2") {
  const auto wrong = [](const std::string& arguments, const std::string& variables = "") {
    const Result result = run(arguments, variables);
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
    return result.err;
  };
  CHECK(wrong("--pp 0") == "pipetrain: error: --pp 0: must be at least 1\n");
  CHECK(wrong("train --ppp 2") == "pipetrain: error: --ppp: unknown option; did you mean --pp?\n");
  CHECK(wrong("", "PIPETRAIN_PP=x") == "pipetrain: error: PIPETRAIN_PP=x: must be an integer of at least 1\n");
  CHECK(wrong("--pp 0", "PIPETRAIN_NONSENSE=1") == "pipetrain: error: --pp 0: must be at least 1\n");
  CHECK(wrong("trian --pp 2") == "pipetrain: error: trian: unknown command; did you mean train?\n");
  for (const char* command : {"simulate", "tune", "launch", "tokenize", "generate", "export", "doctor"})
    CHECK(wrong(command) == "pipetrain: error: " + std::string(command) + ": this command is not built yet; train is\n");
}
