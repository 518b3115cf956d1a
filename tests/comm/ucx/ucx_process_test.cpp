#include "comm/ucx/ucx_process.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "catch.hpp"
#include "comm/ucx/ucx_folder_names.hpp"
#include "comm/ucx/ucx_worker.hpp"

using namespace pipetrain;

TEST_CASE("a process that holds UCX's openings before it ends leaves no file of shared memory") {
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
    CHECK(ucx_folders_of(child) == 0);
  }
}
