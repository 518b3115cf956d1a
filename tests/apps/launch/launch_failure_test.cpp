// Runs of several processes that fail, or that are killed, stopped or signalled.
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/launch/launched_runs.hpp"
#include "apps/live_run.hpp"
#include "apps/pipetrain_program.hpp"
#include "bench/faults/marked_processes.hpp"
#include "catch.hpp"
#include "comm/control/held_port.hpp"
#include "comm/ucx/ucx_folder_names.hpp"

using namespace pipetrain;
using bench::ProcessMark;
namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

// Checks that a launch with this fault ends with one message, this status, and nothing left. Returns stderr.
std::string failed(const std::string& options, const std::string& fault, int status = 1) {
  const ProcessMark mark;
  const Result result = run("launch " + small_launch + options, "PIPETRAIN_FAULT=" + fault + " " + mark.variable());
  INFO(options << ": " << result.err);
  CHECK(result.status == status);
  CHECK(count_of_lines(result.err, "pipetrain: error: ") == 1);
  CHECK(result.out.empty());
  CHECK(mark.all_gone());
  return result.err;
}

bool has_thread(pid_t process, const std::string& name) {
  std::error_code error;
  for (fs::directory_iterator entry("/proc/" + std::to_string(process) + "/task", error), end; !error && entry != end;
       entry.increment(error))
    if (read_file(entry->path() / "comm") == name + "\n") return true;
  return false;
}

std::string host() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

TEST_CASE("a failure in one process ends all with one message that names the rank", "[launch]") {
  const std::string options = "--nproc 2 --pp 2 --steps 5";
  CHECK_THAT(failed(options, "1:2:throw"), Contains("error: rank 1 (stage 1") && Contains("in step 2"));
  CHECK_THAT(failed(options, "0:2:throw"), Contains("error: rank 0 (stage 0") && Contains("in step 2"));
  CHECK_THAT(failed(options, "1:2:oom"), Contains("rank 1 (stage 1") && Contains("bytes"));
  CHECK_THAT(failed(options, "1:2:nan"), Contains("the loss of step 2 is NaN"));
  CHECK_THAT(failed(options, "1:2:exit"),
             Contains("error: process 1 (rank 1, stage 1) on host " + host() + " ended with status 1"));
  CHECK_THAT(failed(options, "0:2:exit"),
             Contains("error: process 0 (rank 0, stage 0) on host " + host() + " ended with status 1"));
  CHECK_THAT(failed(options + " --stall-timeout 1", "1:2:hang"), Contains("a worker of stage 1 hangs"));
  // The other replica waits for its gradients, and is not blamed.
  CHECK_THAT(failed("--nproc 2 --pp 2 --dp 2 --steps 5 --stall-timeout 1", "3:2:hang"),
             Contains("a worker of stage 1 of replica 1 hangs"));
}

TEST_CASE("an elastic run whose process 0 cannot go on ends with the cause, though the others end in order", "[launch]") {
  const Result result = run("launch " + small_launch + "--nproc 2 --elastic takeover --pp 2 --steps 5 --metrics /dev/full");
  INFO(result.err);
  CHECK(result.status == 2);
  CHECK(count_of_lines(result.err, "pipetrain: error: ") == 1);
  CHECK_THAT(result.err, Contains("/dev/full") && Contains("No space left on device"));
}

TEST_CASE("a process that is killed is named, with who waited", "[launch]") {
  for (const int process : {0, 1}) {
    LiveLaunch launch(for_ever + "--nproc 3 --pp 3");
    const auto killed = launch.mark().processes(process);
    REQUIRE(launch.mark().signal(process, SIGKILL));
    CHECK(launch.wait() == 1);
    CHECK(launch.mark().all_gone());
    CHECK(ucx_folders_of(killed.front()) == 0);
    const std::string err = launch.run().err(), number = std::to_string(process);
    INFO(err);
    CHECK_THAT(err, Contains("error: process " + number + " (rank " + number + ", stage " + number + ") on host " + host() +
                             " was ended by SIGKILL"));
    CHECK(count_of_lines(err, "pipetrain: error: ") == 1);
    CHECK_THAT(err, Contains("stage 2: "));
  }
}

TEST_CASE("a process that is stopped is named, and ended", "[launch]") {
  for (const int process : {0, 1}) {
    LiveLaunch launch(for_ever + "--nproc 2 --pp 2");
    REQUIRE(launch.mark().signal(process, SIGSTOP));
    CHECK(launch.wait() == 1);
    CHECK(launch.mark().all_gone());
    INFO(launch.run().err());
    CHECK_THAT(launch.run().err(), Contains("error: process " + std::to_string(process)) &&
                                       Contains("was stopped by SIGSTOP") && Contains(", or use --restart"));
    CHECK(count_of_lines(launch.run().err(), "pipetrain: error: ") == 1);
  }
}

TEST_CASE("processes do not outlive the launch that started them, however it ends", "[launch]") {
  LiveLaunch launch(for_ever + "--nproc 3 --pp 3");
  CHECK(launch.mark().processes().size() == 4);
  CHECK(launch.run().end_by(SIGKILL) == -1);
  CHECK(launch.mark().all_gone());
}

TEST_CASE("a signal to the launch, or to any process, stops the run after its step, and saves it", "[launch]") {
  for (const int process : {-1, 0, 1}) {
    const TempFolder folder;
    LiveLaunch launch(for_ever + "--nproc 2 --pp 2 --save '" + (folder.path() / "run").string() + "'");
    if (process < 0) {
      CHECK(launch.run().end_by(SIGTERM) == 143);
    } else {
      REQUIRE(launch.mark().signal(process, SIGTERM));
      CHECK(launch.wait() == 143);
    }
    INFO(process << ": " << launch.run().err());
    CHECK(launch.mark().all_gone());
    CHECK(count_of_lines(launch.run().err(), "stopped by SIGTERM after step ") == 1);
    CHECK(count_of_lines(launch.run().err(), "error") == 0);
    CHECK(names_in(folder.path() / "run").size() == 1);
  }
}

TEST_CASE("a signal to processes whose run has not begun is reported once", "[launch]") {
  const int port = HeldPort(0).port();
  const std::string place = " WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + std::to_string(port);
  LiveRun first("--pp 3 " + for_ever, "RANK=0" + place), second("--pp 3 " + for_ever, "RANK=1" + place);
  for (const LiveRun* run : {&first, &second}) run->wait_until([&] { return has_thread(run->process(), "control"); });
  CHECK(second.end_by(SIGTERM) == 143);
  CHECK(first.end_by(SIGTERM) == 143);
  CHECK(first.err() == "stopped by SIGTERM\n");
  CHECK(second.err().empty());
}

TEST_CASE("SIGUSR1 to the launch, or to any process, prints which stage waits for which in the whole run", "[launch]") {
  for (const int process : {-1, 0, 1}) {
    LiveLaunch launch(for_ever + "--nproc 2 --pp 2");
    if (process < 0) {
      launch.run().signal(SIGUSR1);
    } else {
      REQUIRE(launch.mark().signal(process, SIGUSR1));
    }
    launch.run().wait_until([&] {
      const std::string err = launch.run().err();
      return err.find("stage 0: ") != std::string::npos && err.find("stage 1: ") != std::string::npos;
    });
    CHECK(launch.run().end_by(SIGINT) == 130);
    CHECK(launch.mark().all_gone());
  }
}

TEST_CASE("a run that is started again learns what an undisturbed one learns", "[launch]") {
  const std::string options = "--pp 2 --steps 6 --save-interval 2 ";
  const LearnedByLaunch alone = train_launched("", options);
  for (const char* fault : {"1:4:exit", "0:4:exit", "1:4:throw"}) {
    INFO(fault);
    const TempFolder folder;
    const ProcessMark mark;
    const Result result = run("launch --nproc 2 --restart 1 " + small_launch + options + model_outputs(folder.path()),
                              std::string("PIPETRAIN_FAULT=") + fault + " " + mark.variable());
    INFO(result.err);
    CHECK(result.status == 0);
    CHECK(count_of_lines(result.err, "the run starts again from its last checkpoint (restart 1 of 1)") == 1);
    CHECK(count_of_lines(result.err, "pipetrain: error: ") == 0);
    CHECK(mark.all_gone());
    CHECK(learned(folder.path()) == alone);
  }
}

TEST_CASE("a run that fails each time is not started again for ever", "[launch]") {
  const TempFolder folder;
  const std::string save = "--save '" + (folder.path() / "run").string() + "' ";
  // Wrong input, and a NaN, would occur again.
  Result result = run("launch --nproc 2 --pp 2 --restart 5 --steps 3 " + save + small_launch, "PIPETRAIN_FAULT=1:2:nan");
  CHECK(result.status == 1);
  CHECK(count_of_lines(result.err, "starts again") == 0);
  result = run("launch --nproc 2 --pp 2 --restart 5 --steps 3 --data '" + folder.path().string() + "/none.txt' " + save +
               small_launch);
  CHECK(result.status == 2);
  CHECK(count_of_lines(result.err, "starts again") == 0);
  CHECK(count_of_lines(result.err, "\n") == 1);
}

TEST_CASE("a run that had no room to save is not started again, and says so", "[launch]") {
  const TempFolder folder;
  const std::string save = (folder.path() / "run").string();
  const Result result =
      run("launch --nproc 1 --pp 2 --restart 2 --steps 4 --save-interval 2 --save '" + save + "' " + small_launch,
          "ulimit -f 100;");
  INFO(result.err);
  CHECK(result.status == 1);
  CHECK(count_of_lines(result.err, "the run starts again") == 0);
  CHECK(count_of_lines(result.err, "pipetrain: error: ") == 1);
  CHECK_THAT(result.err, Contains("File too large") && Contains("; not started again (--restart), because it would end"));
}

TEST_CASE("too few open files for UCX are one line that names the limit", "[launch]") {
  for (const int files : {16, 24, 32}) {
    const Result result = run("launch --nproc 2 --pp 2 --steps 1 " + small_launch, "ulimit -n " + std::to_string(files) + ";");
    INFO(files << ": " << result.err);
    CHECK(result.status == 1);
    CHECK(count_of_lines(result.err, "\n") == 1);
    CHECK_THAT(result.err, Contains("pipetrain: error: ") && Contains("raise ulimit -n"));
  }
}

TEST_CASE("launch completes the report of a run whose process 0 is killed", "[launch]") {
  const TempFolder folder;
  const fs::path page = folder.path() / "r.html";
  LiveLaunch launch("--nproc 2 --pp 2 --report '" + page.string() + "' " + for_ever);
  launch.run().wait_until([&] { return fs::exists(page); });
  CHECK_THAT(read_file(page), Contains(R"("state":"running","state_text":"","written":)"));
  REQUIRE(launch.mark().signal(0, SIGKILL));
  CHECK(launch.wait() == 1);
  CHECK_THAT(read_file(page), Contains(R"("state":"failed","state_text":"process 0)") && Contains("was ended by SIGKILL"));
  CHECK(names_in(folder.path()) == std::vector<std::string>{"r.html"});
}
