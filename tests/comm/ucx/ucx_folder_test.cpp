#include "comm/ucx/ucx_folder.hpp"

#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>

#include "catch.hpp"
#include "comm/ucx/ucx_folder_names.hpp"
#include "comm/ucx/ucx_process.hpp"
#include "comm/ucx/ucx_worker.hpp"
#include "core/error.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
namespace fs = std::filesystem;
using Catch::Matchers::Contains;

namespace {

// Runs this in another process, which it then kills by SIGKILL. Returns the result.
int killed(const std::function<int()>& work) {
  int ends[2], result = -1;
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const int number = work();
    (void)!::write(ends[1], &number, sizeof number);
    ::raise(SIGKILL);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  REQUIRE(::read(ends[0], &result, sizeof result) == sizeof result);
  ::close(ends[0]);
  ::close(ends[1]);
  return result;
}

int make_segment(int mode = 0600) { return ::shmget(IPC_PRIVATE, 4096, IPC_CREAT | mode); }
bool is_there(int segment) {
  struct shmid_ds status {};
  return ::shmctl(segment, IPC_STAT, &status) == 0;
}

}  // namespace

TEST_CASE("UCX's shared memory of a killed process is removed when another process opens UCX") {
  const TempFolder place;
  const int segment = killed([&] {
    static const auto folder = UcxFolder::open(place.path());
    std::ofstream(folder->path() + "/ucx_shm_posix_1a2b") << "x";
    return make_segment();
  });
  REQUIRE(names_in(place.path()).size() == 1);
  REQUIRE(is_there(segment));
  const auto folder = UcxFolder::open(place.path());
  REQUIRE(folder);
  CHECK(names_in(place.path()) == std::vector<std::string>{fs::path(folder->path()).filename().string()});
  CHECK_FALSE(is_there(segment));
}

TEST_CASE("UCX's shared memory of living and of unknown processes stays") {
  const TempFolder place;
  place.write("ucx_shm_posix_1a2b", "somebody's");
  fs::create_directory(place.path() / "pipetrain-ucx.1.x.abcdef");
  auto mine = UcxFolder::open(place.path());
  REQUIRE(mine);
  CHECK(UcxFolder::open(place.path()) == mine);
  std::ofstream(mine->path() + "/ucx_shm_posix_3c") << "x";
  const int own = make_segment(), stranger = killed([] { return make_segment(); });
  // Runs in another process, which sees this one as another.
  killed([&] {
    remove_ucx_leftovers(place.path());
    return 0;
  });
  CHECK(names_in(place.path()).size() == 3);
  CHECK(fs::exists(mine->path() + "/ucx_shm_posix_3c"));
  CHECK(is_there(own));
  CHECK(is_there(stranger));  // of a process that has never said that it uses UCX
  for (const int segment : {own, stranger}) ::shmctl(segment, IPC_RMID, nullptr);
  mine.reset();
  CHECK(names_in(place.path()).size() == 2);
}

TEST_CASE("UCX makes its files in the folder of this process, which goes with the last worker") {
  const auto here = [] { return ucx_folders_of(::getpid()); };
  REQUIRE(here() == 0);
  {
    const UcxWorker one, two;
    CHECK(here() == 1);
    std::size_t files = 0;  // those that this process has open there
    for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
      std::error_code ignored;
      files += fs::read_symlink(entry.path(), ignored).string().find("/pipetrain-ucx.") != std::string::npos;
    }
    CHECK(files > 1);  // more than its lock
  }
  CHECK(here() == 0);
}

TEST_CASE("a process that was forked removes its own folder alone") {
  const TempFolder place;
  const auto mine = UcxFolder::open(place.path());
  REQUIRE(mine);
  const int own = killed([&] {
    remove_ucx_folder();
    const int left = fs::exists(mine->path()) ? 1 : 0;
    static const auto folder = UcxFolder::open(place.path());
    remove_ucx_folder();
    return left + (folder && !fs::exists(folder->path()) ? 2 : 0);
  });
  CHECK(own == 3);
  CHECK(fs::exists(mine->path()));
}

TEST_CASE("an error at UCX's start names the environment's settings for it") {
  ::setenv("UCX_TLS", "nothing_of_that_name", 1);
  CHECK_THROWS_WITH(UcxWorker(), Contains("UCX cannot ") && Contains("UCX_TLS=nothing_of_that_name") &&
                                     Contains("correct or unset these, `ucx_info -d` shows"));
  ::unsetenv("UCX_TLS");
}
