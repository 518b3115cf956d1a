#include "comm/ucx/ucx_process.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>

#include "catch.hpp"
#include "comm/ucx/ucx_worker.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
namespace fs = std::filesystem;

TEST_CASE("a process that holds UCX's openings before it ends leaves no file of shared memory") {
  const TempFolder folder;
  const std::string moved = "UCX_POSIX_DIR";  // where UCX makes them
  ::setenv(moved.c_str(), folder.path().c_str(), 1);
  for (int moment = 0; moment < 40; ++moment) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      std::thread([] {
        for (;;) const UcxWorker worker;
      }).detach();
      std::this_thread::sleep_for(std::chrono::microseconds(1500 * moment));
      hold_ucx_openings();
      std::_Exit(7);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 7));
  }
  ::unsetenv(moved.c_str());
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 0);
}
