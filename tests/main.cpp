// The main function of every test program. Beside Catch2's own report it keeps a small file for whoever started the program
// (named by TEST_COUNTS_FILE, none if unset): the test case under way, so that a crash or a hang has a name, and at the
// end "PASSED FAILED SKIPPED" test cases. Read so and not from the printed summary, whose words differ between Catch2 v2 and
// v3.
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

namespace {

// Skipped cases exist from Catch2 v3 on.
template <class Counts>
std::size_t skipped(const Counts& counts) {
  if constexpr (requires { counts.skipped; }) {
    return counts.skipped;
  } else {
    return 0;
  }
}

class CountsFile : public ListenerBase {
 public:
  using ListenerBase::ListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo& info) override { write("running " + std::string(info.name)); }

  void testRunEnded(const Catch::TestRunStats& stats) override {
    const auto& cases = stats.totals.testCases;
    write(std::to_string(cases.passed + cases.failedButOk) + ' ' + std::to_string(cases.failed) + ' ' +
          std::to_string(skipped(cases)));
  }

 private:
  static void write(const std::string& line) {
    if (const char* path = std::getenv("TEST_COUNTS_FILE")) std::ofstream(path) << line << '\n';
  }
};

CATCH_REGISTER_LISTENER(CountsFile)

}  // namespace

int main(int argc, char** argv) { return Catch::Session().run(argc, argv); }
