// The main function of every test program. Beside Catch2's own report it keeps a small file for whoever started the program
// (named by TEST_COUNTS_FILE, none if unset): the test case under way, so that a crash or a hang has a name, and at the
// end "PASSED FAILED SKIPPED" test cases. Read so and not from the printed summary, whose words differ between Catch2 v2 and
// v3, and which counts cases that skip() ended as passed.
#include <csignal>
#include <cstddef>
#include <cstdlib>
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

bool case_skips = false;  // the test case under way has called skip()

class CountsFile : public ListenerBase {
 public:
  using ListenerBase::ListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    case_skips = false;
    write("running " + std::string(info.name));
  }

  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    if (case_skips && stats.totals.assertions.total() == 0) ++skipped_;
  }

  void testRunEnded(const Catch::TestRunStats& stats) override {
    const auto& cases = stats.totals.testCases;
    write(std::to_string(cases.passed + cases.failedButOk - skipped_) + ' ' + std::to_string(cases.failed) + ' ' +
          std::to_string(skipped_));
  }

 private:
  std::size_t skipped_ = 0;

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
  // The program under test keeps ignoring what it inherits as ignored, as when the tests run in the background of a script.
  for (const int number : {SIGINT, SIGHUP}) std::signal(number, SIG_DFL);
  return Catch::Session().run(argc, argv);
}
