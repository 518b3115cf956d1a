#include "bench/gpu/command.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "catch.hpp"
#include "temp_folder.hpp"

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

}  // namespace

TEST_CASE("a command's status, output and last words are told") {
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
  const auto file = folder.path() / "alive";
  // Its child would write for ever.
  Command command = shell(folder, "(while true; do date +%N > '" + file.string() + "'; sleep 0.02; done) & wait");
  command.seconds = 0.3;
  const auto start = std::chrono::steady_clock::now();
  const Ended ended = run_command(command);
  CHECK(!ended.in_time);
  CHECK_THAT(why_failed(command, ended), Contains("was ended"));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(14));
  const auto written = [&] {
    std::string text;
    std::getline(std::ifstream(file), text);
    return text;
  };
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const std::string before = written();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  CHECK(written() == before);
}

TEST_CASE("a command ends when the program that runs it is killed") {
  TempFolder folder;
  const auto file = folder.path() / "pid";
  const pid_t runner = ::fork();
  if (runner == 0) {
    run_command(shell(folder, "echo $$ > '" + file.string() + "'; exec sleep 60"));
    ::_exit(0);
  }
  const auto soon = [](const auto& condition) {
    for (int patience = 0; patience < 500; ++patience) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  };
  long pid = 0;
  REQUIRE(soon([&] { return static_cast<bool>(std::ifstream(file) >> pid); }));
  ::kill(runner, SIGKILL);
  ::waitpid(runner, nullptr, 0);
  CHECK(soon([&] {  // gone, or dead and not yet taken in by whoever inherits it
    std::string number, name, state;
    std::ifstream("/proc/" + std::to_string(pid) + "/stat") >> number >> name >> state;
    return state.empty() || state == "Z";
  }));
}
