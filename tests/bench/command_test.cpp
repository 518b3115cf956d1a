#include "bench/gpu/command.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

#include "catch.hpp"
#include "temp_folder.hpp"
#include "wait_until.hpp"

using namespace pipetrain;
using namespace pipetrain::bench;
using Catch::Matchers::Contains;

namespace {

Command shell(const TempFolder& folder, const std::string& script) {
  Command command;
  command.arguments = {"sh", "-c", script};
  command.output = folder.path() / "output";
  return command;
}

// Returns true if the process is gone, or dead but not yet reaped by its new parent.
bool is_dead(long pid) {
  std::string number, name, state;
  std::ifstream("/proc/" + std::to_string(pid) + "/stat") >> number >> name >> state;
  return state.empty() || state == "Z";
}

}  // namespace

TEST_CASE("a command's status, output and last words are reported") {
  TempFolder folder;
  Command good = shell(folder, "echo $GREETING; echo aside >&2");
  good.environment["GREETING"] = "hello";
  const Ended ended = run_command(good);
  CHECK(ended.ok());
  CHECK(output_of(good) == "hello\n");
  CHECK(last_words(good) == "aside");

  const Command bad = shell(folder, "echo first >&2; echo last >&2; exit 3");
  const Ended failed = run_command(bad);
  CHECK(!failed.ok());
  CHECK(failed.status == 3);
  CHECK_THAT(why_failed(bad, failed), Contains("status 3") && Contains("first | last"));

  const Command long_story =
      shell(folder, "echo 'RuntimeError: no room' >&2; for i in $(seq 200); do echo closing $i >&2; done; exit 1");
  CHECK_THAT(why_failed(long_story, run_command(long_story)), Contains("RuntimeError: no room") && Contains("closing 200"));

  Command none;
  none.arguments = {"/nowhere/to/be/found"};
  none.output = folder.path() / "output";
  CHECK_THAT(why_failed(none, run_command(none)), Contains("no program /nowhere/to/be/found"));
}

TEST_CASE("variables that are not to be passed on are not") {
  TempFolder folder;
  ::setenv("BENCHTEST_A", "1", 1);
  Command command = shell(folder, "echo \"$BENCHTEST_A|$PATH\"");
  command.without = "BENCHTEST_";
  run_command(command);
  CHECK(output_of(command).front() == '|');
  CHECK(output_of(command).size() > 2);
  ::unsetenv("BENCHTEST_A");
}

TEST_CASE("a command that takes too long is ended with what it started") {
  TempFolder folder;
  const auto file = folder.path() / "pid";
  // Its child would run for ever.
  Command command = shell(folder, "(while true; do sleep 0.02; done) & echo $! > '" + file.string() + "'; wait");
  command.seconds = 0.3;
  long child = 0;
  for (; child == 0 && command.seconds < 20; command.seconds *= 4) {  // a loaded machine may start the child later
    const auto start = std::chrono::steady_clock::now();
    const Ended ended = run_command(command);
    CHECK(!ended.in_time);
    CHECK_THAT(why_failed(command, ended), Contains("was ended"));
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(14) + std::chrono::duration<double>(command.seconds));
    std::ifstream(file) >> child;
  }
  REQUIRE(child != 0);
  CHECK(test::wait_until([&] { return is_dead(child); }));
}

TEST_CASE("a command ends when the program that runs it is killed") {
  TempFolder folder;
  const auto file = folder.path() / "pid";
  const pid_t runner = ::fork();
  if (runner == 0) {
    run_command(shell(folder, "echo $$ > '" + file.string() + "'; exec sleep 60"));
    ::_exit(0);
  }
  long pid = 0;
  REQUIRE(test::wait_until([&] { return static_cast<bool>(std::ifstream(file) >> pid); }));
  ::kill(runner, SIGKILL);
  ::waitpid(runner, nullptr, 0);
  CHECK(test::wait_until([&] { return is_dead(pid); }));
}
