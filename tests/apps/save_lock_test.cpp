// Two live runs that save to one folder.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "catch.hpp"
#include "run_program.hpp"

using namespace pipetrain;
namespace fs = std::filesystem;
using Catch::Matchers::Contains;

namespace {

const std::string small = "--device cpu --seq-len 8 --layers 1 --microbatches 1 ";

Result run(const std::string& arguments) { return run_program(PIPETRAIN_PROGRAM, arguments); }

// A run that does its steps but the last, and hangs in that one until it is killed.
class HangingRun {
 public:
  HangingRun(const std::string& arguments, int last_step) {
    const std::string err = (folder_.path() / "err").string();
    const std::string command = "PIPETRAIN_FAULT=0:" + std::to_string(last_step) + ":hang exec '" PIPETRAIN_PROGRAM "' " +
                                arguments + " > /dev/null 2> '" + err + "'";
    process_ = ::fork();
    if (process_ == 0) {
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      ::_exit(127);
    }
    const std::string line = "step " + std::to_string(last_step - 1);
    for (int tries = 0; tries < 600 && read_file(err).find(line) == std::string::npos; ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    INFO(read_file(err));
    REQUIRE(read_file(err).find(line) != std::string::npos);
  }
  ~HangingRun() { kill(); }

  pid_t process() const { return process_; }
  void kill() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = 0;
  }

 private:
  TempFolder folder_;
  pid_t process_ = 0;
};

}  // namespace

TEST_CASE("a second live run is refused in a folder that another saves to, until that one ends or is killed") {
  const TempFolder folder;
  const std::string save = (folder.path() / "run").string();
  const std::string second = small + "--steps 4 --resume --save " + save;
  HangingRun first(small + "--save-interval 2 --save " + save, 4);
  REQUIRE(fs::exists(save + "/step-00000002"));

  const Result refused = run(second);
  CHECK(refused.status == 2);
  CHECK(refused.err == "pipetrain: error: --save " + save + ": another run (process " + std::to_string(first.process()) +
                           ") is saving there; wait until it ends, or give another folder\n");
  CHECK_THAT(run_program(PIPETRAIN_PROGRAM, small + "--steps 4 --resume", "PIPETRAIN_SAVE=" + save).err,
             Contains("error: PIPETRAIN_SAVE: --save " + save));
  CHECK(run(second + " --dry-run").status == 0);
  CHECK(run(small + "--steps 1 --save " + save + "2").status == 0);

  first.kill();
  const Result resumed = run(second);
  INFO(resumed.err);
  CHECK(resumed.status == 0);
  CHECK_THAT(resumed.err, Contains("going on after step 2"));
  CHECK(names_in(save) == std::vector<std::string>{"model", "step-00000002", "step-00000004"});
}

TEST_CASE("a folder that nothing is saved to yet is held too") {
  const TempFolder folder;
  const std::string save = (folder.path() / "deep/run").string();
  HangingRun first(small + "--save " + save, 2);
  const Result refused = run(small + "--steps 1 --save " + save + "/");
  CHECK(refused.status == 2);
  CHECK_THAT(refused.err, Contains("is saving there"));
  first.kill();
  CHECK(run(small + "--steps 1 --save " + save).status == 0);
  CHECK(names_in(save) == std::vector<std::string>{"model", "step-00000001"});
}

TEST_CASE("a run that saves nothing leaves no folder, and a dry run never makes one") {
  const TempFolder folder;
  const std::string save = (folder.path() / "deep/run").string();
  CHECK(run(small + "--steps 1 --data " + folder.write("a.txt", "").string() + " --save " + save).status == 2);
  CHECK(run(small + "--dry-run --save " + save).status == 0);
  CHECK(names_in(folder.path()) == std::vector<std::string>{"a.txt"});
}
