// Outputs that are links, pipes or open descriptors are written to, never replaced.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/pipetrain_program.hpp"
#include "catch.hpp"
#include "paths.hpp"

using namespace pipetrain;
namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

namespace {

const std::string small_target = "--device cpu --seq-len 8 --layers 1 --microbatches 1 --steps 3 ";

// Every output option, with a command that has it.
const std::vector<std::pair<std::string, std::string>> output_options = {
    {"simulate --pp 2 --csv", ".csv"},    {"simulate --pp 2 --svg", ".svg"},      {"simulate --pp 2 --html", ".html"},
    {"simulate --pp 2 --trace", ".json"}, {"simulate --pp 2 --plan-out", ".txt"}, {small_target + "--metrics", ".jsonl"},
    {small_target + "--trace", ".json"},  {small_target + "--profile", ".json"},
};

int lines_in(const std::string& text) { return static_cast<int>(std::count(text.begin(), text.end(), '\n')); }

// Runs a bash script, and captures its own stdout and stderr.
Result script(const TempFolder& folder, const std::string& text) {
  return run_program("/bin/bash", folder.write("script.sh", "cd " + folder.path().string() + "\n" + text).string());
}

const std::string program = "timeout -s KILL 60 '" + program_path() + "' ";

}  // namespace

TEST_CASE("an output that is a link stays one, and what it leads to is written") {
  for (const auto& [command, ending] : output_options) {
    for (const bool there : {true, false}) {
      const TempFolder folder;
      fs::create_directories(folder.path() / "real/deep");
      const fs::path real = folder.path() / "real/deep" / ("file" + ending);
      if (there) folder.write("real/deep/file" + ending, "old");
      fs::create_symlink("deep/file" + ending, folder.path() / "real" / ("second" + ending));
      const fs::path link = folder.path() / ("link" + ending);
      fs::create_symlink("real/second" + ending, link);
      const Result result = run(command + " " + link.string());
      INFO(command << ": " << result.err);
      CHECK(result.status == 0);
      CHECK(fs::is_symlink(link));
      CHECK(fs::is_symlink(folder.path() / "real" / ("second" + ending)));
      CHECK(fs::is_regular_file(fs::symlink_status(real)));
      CHECK(read_file(real).size() > 50);
      CHECK(names_in(folder.path() / "real/deep").size() == 1);
    }
  }
}

TEST_CASE("an output that is a pipe is written to, never replaced") {
  for (const auto& [command, ending] : output_options) {
    const TempFolder folder;
    const std::string pipe = "pipe" + ending;
    const Result result = script(folder, "mkfifo " + pipe + "\ncat " + pipe + " > got &\n" + program + command + " " + pipe +
                                             "\nstatus=$?\nwait\nexit $status\n");
    INFO(command << ": " << result.err);
    CHECK(result.status == 0);
    CHECK(fs::is_fifo(folder.path() / pipe));
    CHECK(read_file(folder.path() / "got").size() > 50);
  }
}

// Uses links of its own, so that nothing on the machine can be damaged.
TEST_CASE("an output that is an open descriptor is written at that one's position, whatever it was opened on") {
  const TempFolder folder;
  fs::create_symlink("/proc/self/fd/1", folder.path() / "stdout.csv");
  for (const std::string redirection : {"> out", ">> out", "| cat > out"}) {
    folder.write("out", "before\n");
    const Result result = script(folder, program + "simulate --pp 2 --csv stdout.csv " + redirection + "\n");
    INFO(redirection << ": " << result.err);
    CHECK(result.status == 0);
    const std::string out = read_file(folder.path() / "out");
    CHECK_THAT(out, Contains(redirection == ">> out" ? "before\nstage," : "stage,") && Contains("critical path"));
    CHECK(fs::is_symlink(folder.path() / "stdout.csv"));
  }
  CHECK(names_in(folder.path()) == std::vector<std::string>{"out", "script.sh", "stdout.csv"});
}

TEST_CASE("metrics to stdout appear among the other output, each line once") {
  const TempFolder folder;
  fs::create_symlink("/proc/self/fd/1", folder.path() / "stdout");
  const std::string train = program + small_target + "--metrics stdout ";
  folder.write("out", "before\n");
  REQUIRE(script(folder, train + "> out\n" + train + ">> out\n").status == 0);
  const std::string out = read_file(folder.path() / "out");
  INFO(out);
  CHECK(lines_in(out) == 8);  // three steps and the result, twice
  CHECK_THAT(out, StartsWith(R"({"step":1,)") && Contains("\n3 steps, loss ") && Contains("\n{\"step\":3,"));
  REQUIRE(script(folder, "echo before > out\n" + train + ">> out\n").status == 0);
  CHECK_THAT(read_file(folder.path() / "out"), StartsWith("before\n{\"step\":1,"));
}

TEST_CASE("inputs that are pipes or devices are refused, and nobody waits for a writer") {
  const TempFolder folder;
  for (const auto& [option, ending] : std::vector<std::pair<std::string, std::string>>{{"--config", ".toml"},
                                                                                       {"--config", ".json"},
                                                                                       {"--schedule", ".txt"},
                                                                                       {"--data", ".txt"},
                                                                                       {"simulate --costs", ".json"},
                                                                                       {"tune --devices 1 --measured", ".json"},
                                                                                       {"simulate --config", ".json"},
                                                                                       {"doctor --config", ".toml"}}) {
    const std::string pipe = (folder.path() / ("pipe" + ending)).string();
    ::mkfifo(pipe.c_str(), 0600);
    INFO(option);
    CHECK_THAT(refused(option + " " + pipe), Contains("egular file"));
    fs::remove(pipe);
    fs::create_symlink("/dev/zero", pipe);
    CHECK_THAT(refused(option + " " + pipe, "ulimit -v 1000000;"), Contains("egular file"));
    fs::remove(pipe);
  }
}

TEST_CASE("outputs that cannot be written are refused before anything runs") {
  const TempFolder folder;
  const std::string place = folder.path().string() + "/";
  fs::create_symlink("circle", folder.path() / "circle");
  fs::create_symlink("gone/file", folder.path() / "astray");
  fs::create_symlink("/proc/self/fd/0", folder.path() / "stdin");
  fs::create_symlink(".", folder.path() / "folder");
  for (const std::string option : {"--metrics ", "--trace "}) {
    CHECK_THAT(refused(small_target + option + place + "circle"), Contains("circle: cannot be written (Too many levels"));
    CHECK_THAT(refused(small_target + option + place + "astray"),
               Contains("there is no folder") && Contains("gone; make it first"));
    CHECK_THAT(refused(small_target + option + place + "folder"), EndsWith("is a folder; give a file"));
  }
  CHECK_THAT(refused("simulate --svg " + place + "stdin < /dev/null"), Contains("cannot be written (Bad file descriptor)"));
  CHECK(names_in(folder.path()) == std::vector<std::string>{"astray", "circle", "folder", "stdin"});
}
