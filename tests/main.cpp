// The main function of every test program. Besides Catch2's own report it writes a small file (named by
// TEST_COUNTS_FILE, none if unset) for the caller: the running test case, so that a crash or a hang has a name, and at
// the end "PASSED FAILED SKIPPED" test cases. The printed summary would not do: its words differ between Catch2 v2 and
// v3, and it counts cases that skip() ended as passed. To the file named by TEST_DURATIONS_FILE it adds a line for each
// test case: seconds, the program's name and the case's, separated by tabs.
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using ListenerBase = Catch::EventListenerBase;
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
using ListenerBase = Catch::TestEventListenerBase;
#endif

#include "skip.hpp"

namespace {

using Clock = std::chrono::steady_clock;

std::string program_name;
bool case_skips = false;  // the running test case has called skip()

class CountsFile : public ListenerBase {
 public:
  using ListenerBase::ListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    case_skips = false;
    case_name_ = info.name;
    begin_ = Clock::now();
    write("running " + case_name_);
  }

  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    if (case_skips && stats.totals.assertions.total() == 0) ++skipped_;
    if (const char* path = std::getenv("TEST_DURATIONS_FILE")) {
      const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
      std::ofstream(path, std::ios::app) << seconds << '\t' << program_name << '\t' << case_name_ << '\n';
    }
  }

  void testRunEnded(const Catch::TestRunStats& stats) override {
    const auto& cases = stats.totals.testCases;
    write(std::to_string(cases.passed + cases.failedButOk - skipped_) + ' ' + std::to_string(cases.failed) + ' ' +
          std::to_string(skipped_));
  }

 private:
  std::size_t skipped_ = 0;
  std::string case_name_;
  Clock::time_point begin_;

  static void write(const std::string& line) {
    if (const char* path = std::getenv("TEST_COUNTS_FILE")) std::ofstream(path) << line << '\n';
  }
};

CATCH_REGISTER_LISTENER(CountsFile)

}  // namespace

namespace pipetrain::test {

void skip(const std::string& reason) {
  case_skips = true;
  WARN("skipped: " << reason);
}

bool needs_gpus(int present, int wanted) {
  if (present >= wanted) return true;
  skip("needs " + std::to_string(wanted) + (wanted == 1 ? " GPU, and " : " GPUs, and ") + std::to_string(present) +
       " are here");
  return false;
}

}  // namespace pipetrain::test

int main(int argc, char** argv) {
  // Resets signals that are inherited as ignored, as in a script's background, because the program under test would
  // keep ignoring them.
  for (const int number : {SIGINT, SIGHUP}) std::signal(number, SIG_DFL);
  program_name = std::filesystem::path(argv[0]).filename().string();
  return Catch::Session().run(argc, argv);
}
