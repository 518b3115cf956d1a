// Runs of several processes, started as users start them: their results, and how they meet.
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include "apps/launch/launched_runs.hpp"
#include "apps/live_run.hpp"
#include "apps/pipetrain_program.hpp"
#include "bench/faults/marked_processes.hpp"
#include "catch.hpp"
#include "comm/control/held_port.hpp"

using namespace pipetrain;
using bench::ProcessMark;
namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

// Returns true if any process listens there, at the loopback address.
bool is_listened_at(int port) {
  char entry[64];  // an entry of the kernel's table: local address, remote address, state (0A: listens)
  std::snprintf(entry, sizeof entry, "0100007F:%04X 00000000:0000 0A", static_cast<unsigned>(port));
  return read_file("/proc/net/tcp").find(entry) != std::string::npos;
}

}  // namespace

TEST_CASE("processes of a pipeline learn what one process learns, to the bit", "[launch]") {
  const std::string options = "--pp 4 --steps 4 ";
  const LearnedByLaunch alone = train_launched("", options);
  REQUIRE(alone.metrics.size() == 4);
  for (const char* nproc : {"1", "2", "3", "4"}) {
    INFO(nproc << " processes");
    CHECK(train_launched("launch --nproc " + std::string(nproc), options) == alone);
  }
}

TEST_CASE("a run of several processes reports its transport", "[launch]") {
  const std::string options = "--device cpu --pp 2 --steps 1 --layers 2 --seq-len 8 --microbatches 2";
  CHECK_THAT(run("launch --nproc 2 " + options).err, Contains("between processes: ucx\n"));
  CHECK_THAT(run(options).err, !Contains("between processes"));
}

TEST_CASE("processes of other layouts learn what one process learns, to the bit", "[launch][slow]") {
  struct Layout {
    const char* options;
    std::vector<const char*> processes;
  };
  const std::vector<Layout> layouts = {{"--dp 2 --pp 2 --steps 3", {"2", "4"}},
                                       {"--pp 2 --tp 2 --steps 3", {"2"}},
                                       {"--pp 2 --schedule interleaved --chunks 2 --steps 3", {"2"}},
                                       {"--pp 4 --schedule zb-v --steps 3", {"2", "4"}},
                                       {"--pp 2 --order ready --steps 3", {"2"}},
                                       {"--dp 4 --steps 3 --microbatches 2", {"2", "4"}},
                                       {"--cp 2 --pp 2 --steps 3", {"2", "4"}},
                                       {"--pp 4 --dp 2 --steps 3", {"8"}}};
  for (const Layout& layout : layouts) {
    const LearnedByLaunch alone = train_launched("", layout.options);
    for (const char* nproc : layout.processes) {
      INFO(layout.options << " in " << nproc);
      CHECK(train_launched("launch --nproc " + std::string(nproc), layout.options) == alone);
    }
  }
}

TEST_CASE("processes that launchers start train together", "[launch]") {
  const std::string options = small_launch + "--pp 2 --steps 2 ";
  const TempFolder folder;
  const ProcessMark mark;
  const auto port = std::to_string(HeldPort(0).port());
  LiveRun second(options, mark.variable() + " RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + port);
  const Result first = run(options + model_outputs(folder.path()),
                           mark.variable() + " RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + port);
  INFO(first.err << second.err());
  CHECK(first.status == 0);
  CHECK(second.end_by(0) == 0);
  CHECK(second.err().empty());
  CHECK(learned(folder.path()) == train_launched("", "--pp 2 --steps 2"));
}

TEST_CASE("two launches on one host act as two hosts", "[launch]") {
  const auto port = std::to_string(HeldPort(0).port());
  const std::string options = small_launch + "--pp 4 --steps 3 --nproc 2 --nnodes 2 --master 127.0.0.1:" + port;
  const TempFolder folder;
  const ProcessMark mark;
  LiveRun second("launch --node-rank 1 " + options, mark.variable());
  const Result first = run("launch --node-rank 0 " + options + model_outputs(folder.path()), mark.variable());
  INFO(first.err << second.err());
  CHECK(first.status == 0);
  CHECK(second.end_by(0) == 0);
  CHECK(mark.all_gone());
  CHECK(learned(folder.path()) == train_launched("", "--pp 4 --steps 3"));
}

TEST_CASE("processes that do not fit together end at once, in one line each", "[launch]") {
  const std::string options = "--pp 2 --steps 2 --nnodes 2 " + small_launch;
  for (const auto& [one, two, name] :
       {std::tuple("--lr 1e-3", "--lr 1e-4", "lr "), std::tuple("", "--adam-eps 1e-7", "adam-eps "),
        std::tuple("--pack documents", "--pack isolated", "pack "), std::tuple("", "--text-keys a,b", "text-keys "),
        std::tuple("--chat-template llama3", "--chat-template chatml", "chat-template ")}) {
    const std::string master = " --master 127.0.0.1:" + std::to_string(HeldPort(0).port()) + " ";
    LiveRun first(options + master + "--node-rank 0 " + one);
    const Result second = run(options + master + "--node-rank 1 " + two);
    INFO(second.err << first.err());
    CHECK(second.status == 2);
    CHECK(count_of_lines(second.err, "\n") == 1);
    CHECK_THAT(second.err, Contains(std::string("error: --") + name));
    CHECK(first.end_by(0) == 2);  // long before --rendezvous-timeout
    CHECK(count_of_lines(first.err(), "\n") == 1);
    CHECK_THAT(first.err(), Contains("error: process 1 ") && Contains(std::string("was refused: ") + name));
  }
}

TEST_CASE("a dry run refuses what a run refuses because ranks of one stage are in several processes", "[launch]") {
  const std::string divided = "launch --nproc 2 --tp 2 --dp 3 --pp 3 " + small_launch;
  for (const std::string dry : {"--dry-run", "--steps 1"}) {
    CHECK_THAT(refused(divided + "--order ready " + dry), Contains("--order ready: the ranks of a stage run in several"));
    CHECK_THAT(refused(divided + "--post-validation on " + dry),
               Contains("--post-validation on: all ranks of a stage must be in one process"));
  }
  CHECK(run("launch --nproc 2 --tp 2 --dp 2 --pp 3 --order ready --dry-run " + small_launch).status == 0);
}

TEST_CASE("a process with another token is refused, and the others keep waiting", "[launch]") {
  const std::string options =
      "--pp 2 --steps 2 --nnodes 2 --rendezvous-timeout 2 --master 127.0.0.1:" + std::to_string(HeldPort(0).port()) + " " +
      small_launch;
  LiveRun first(options + "--node-rank 0", "PIPETRAIN_TOKEN=a");
  const Result second = run(options + "--node-rank 1", "PIPETRAIN_TOKEN=b");
  INFO(second.err << first.err());
  CHECK(second.status == 2);
  CHECK(count_of_lines(second.err, "\n") == 1);
  CHECK_THAT(second.err, Contains("token"));
  CHECK(first.end_by(0) == 1);
  CHECK(count_of_lines(first.err(), "\n") == 1);
  CHECK_THAT(first.err(), Contains("process 1") && Contains("did not join"));
}

TEST_CASE("a process that does not come, and an address in use, are named", "[launch]") {
  const HeldPort port(0);
  const std::string options =
      small_launch + "--pp 2 --steps 2 --nnodes 2 --rendezvous-timeout 1 --master 127.0.0.1:" + std::to_string(port.port());
  Result result = run(options + " --node-rank 0");
  CHECK(result.status == 1);
  CHECK_THAT(result.err, Contains("error: process 1 of the run's 2 did not join"));
  result = run(options + " --node-rank 1");
  CHECK(result.status == 1);
  CHECK_THAT(result.err, Contains("error: process 0 was not reached at 127.0.0.1"));
  LiveRun waits(small_launch +
                "--pp 2 --nnodes 2 --node-rank 0 --rendezvous-timeout 30 --master 127.0.0.1:" + std::to_string(port.port()));
  waits.wait_until([&] { return is_listened_at(port.port()); });
  result = run(options + " --node-rank 0");
  CHECK(result.status == 1);
  CHECK_THAT(result.err, Contains("127.0.0.1:" + std::to_string(port.port()) + ": Address already in use"));
  CHECK(waits.end_by(SIGTERM) == 143);
}

TEST_CASE("a launch at the address of another one ends with that cause alone", "[launch]") {
  const std::string master = " --master 127.0.0.1:" + std::to_string(HeldPort(0).port());
  LiveLaunch earlier(for_ever + "--nproc 2 --pp 2" + master);
  const ProcessMark mark;
  const Result result = run("launch --nproc 2 --pp 2 --steps 2 " + small_launch + master, mark.variable());
  INFO(result.err);
  CHECK(result.status == 1);
  CHECK(count_of_lines(result.err, "\n") == 1);
  CHECK_THAT(result.err, Contains("Address already in use") && !Contains("token"));
  CHECK(mark.all_gone());
  CHECK(earlier.run().end_by(SIGTERM) == 143);
}

TEST_CASE("a process of another job is refused in one line, and the run keeps waiting for its own", "[launch]") {
  const std::string options = small_launch + "--pp 2 --steps 2 ";
  const std::string tasks = "SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NUM_NODES=1 SLURM_STEP_ID=0 ";
  const std::string master = "--master 127.0.0.1:" + std::to_string(HeldPort(0).port());
  LiveRun first(options + master, tasks + "SLURM_JOB_ID=12 SLURM_PROCID=0");
  const Result other = run(options + master, tasks + "SLURM_JOB_ID=13 SLURM_PROCID=1");
  INFO(other.err);
  CHECK(other.status == 1);
  CHECK(count_of_lines(other.err, "\n") == 1);
  CHECK_THAT(other.err, Contains("it belongs to Slurm job 12.0, this process to Slurm job 13.0"));
  CHECK(run(options + master, tasks + "SLURM_JOB_ID=12 SLURM_PROCID=1").status == 0);
  CHECK(first.end_by(0) == 0);
}

TEST_CASE("processes that launch starts have the program's name", "[launch]") {
  LiveLaunch launch(for_ever + "--nproc 2 --pp 2");
  for (const int process : {0, 1}) {
    const auto found = launch.mark().processes(process);
    REQUIRE(found.size() == 1);
    CHECK(read_file("/proc/" + std::to_string(found.front()) + "/comm") == "pipetrain\n");
  }
  CHECK(launch.run().end_by(SIGTERM) == 143);
}

TEST_CASE("wrong input of one process is reported once, and ends all", "[launch]") {
  const ProcessMark mark;
  const Result result = run("launch --nproc 2 --pp 2 --steps 2 --data /nowhere/at-all.txt " + small_launch, mark.variable());
  CHECK(result.status == 2);
  CHECK(count_of_lines(result.err, "\n") == 1);
  CHECK_THAT(result.err, Contains("/nowhere/at-all.txt"));
  CHECK(mark.all_gone());
}

TEST_CASE("launch finds programs where a shell does, and hands them options that it has too", "[launch]") {
  const TempFolder folder;
  const auto put = [&](const std::string& name, const std::string& text, bool executable = true) {
    const fs::path file = folder.write(name, text);
    if (executable) fs::permissions(file, fs::perms::owner_all);
    return file.string();
  };
  put("bin/tell_place", "#!/bin/sh\necho \"$1 ${PIPETRAIN_LAUNCH%% *}\"\n");
  const Result result = run("launch --nproc 2 tell_place --help", "PATH=" + folder.path().string() + "/bin:$PATH");
  INFO(result.err);
  CHECK(result.status == 0);
  CHECK((result.out == "--help 0/2\n--help 1/2\n" || result.out == "--help 1/2\n--help 0/2\n"));
  CHECK(run("launch --nproc 2 true").status == 0);
  CHECK(run("launch --nproc 2 true", "unset PATH;").status == 0);
  CHECK_THAT(refused("launch --nproc 2 true", "PATH=/nonexistent"), Contains("true is not a program that can be run"));
  CHECK_THAT(refused("launch --nproc 2 " + put("plain", "x", false)), Contains("make it executable (chmod +x)"));
  CHECK_THAT(refused("launch --nproc 2 " + put("unnamed", "echo x\n")), Contains("first line names its interpreter"));
  CHECK_THAT(run("launch --nproc 2 --help true").out, StartsWith("pipetrain launch --nproc N"));
}

TEST_CASE("a signal to the launch of a program is not a failure of its processes", "[launch]") {
  for (const auto& [signal, status] : {std::pair{SIGTERM, 143}, std::pair{SIGINT, 130}, std::pair{SIGHUP, 129}}) {
    const TempFolder folder;
    const std::string begun = (folder.path() / "begun").string();
    LiveRun live("launch --nproc 2 sh -c 'echo x >> " + begun + "; exec sleep 600'");
    live.wait_until([&] { return read_file(begun) == "x\nx\n"; });
    CHECK(live.end_by(signal) == status);
    CHECK(live.err() == "stopped by SIG" + std::string(::sigabbrev_np(signal)) + "\n");
  }
}
