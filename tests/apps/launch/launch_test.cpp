// Runs of several processes, started as users start them: their results, and how they end.
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

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

const std::string small_launch = "--device cpu --threads 1 --seq-len 8 --layers 4 --microbatches 4 ";
const std::string for_ever = small_launch + "--steps 1000000 --log-interval 1000000 ";

struct LearnedByLaunch {
  std::vector<std::pair<double, double>> metrics;  // loss and norm of each step
  std::string weights;
  bool operator==(const LearnedByLaunch&) const = default;
};

LearnedByLaunch learned(const fs::path& folder) {
  LearnedByLaunch result;
  std::ifstream lines(folder / "metrics.jsonl");
  for (std::string line; std::getline(lines, line);) {
    const auto step = nlohmann::json::parse(line);
    result.metrics.emplace_back(step.at("loss"), step.at("grad_norm"));
  }
  result.weights = read_file(folder / "run" / "model" / "model.safetensors");
  return result;
}

std::string model_outputs(const fs::path& folder) {
  return " --metrics '" + (folder / "metrics.jsonl").string() + "' --save '" + (folder / "run").string() + "' ";
}

// Returns the results of a run that ends by itself. `command` begins with "launch" or is empty.
LearnedByLaunch train_launched(const std::string& command, const std::string& options, const std::string& variables = "") {
  const TempFolder folder;
  const ProcessMark mark;
  const Result result =
      run(command + " " + small_launch + options + model_outputs(folder.path()), variables + " " + mark.variable());
  INFO(command << " " << options << ": " << result.err);
  CHECK(result.status == 0);
  CHECK(mark.all_gone());
  CHECK(std::count(result.out.begin(), result.out.end(), '\n') == 1);  // of process 0 alone
  return learned(folder.path());
}

// Returns true if any process listens there, at the loopback address.
bool is_listened_at(int port) {
  char entry[64];  // an entry of the kernel's table: local address, remote address, state (0A: listens)
  std::snprintf(entry, sizeof entry, "0100007F:%04X 00000000:0000 0A", static_cast<unsigned>(port));
  return read_file("/proc/net/tcp").find(entry) != std::string::npos;
}

std::size_t count_of_lines(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

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

// A running launch, for tests that interfere with it.
class LiveLaunch {
 public:
  explicit LiveLaunch(const std::string& options, const std::string& variables = "")
      : run_("launch " + options, variables + " " + mark_.variable()) {
    run_.wait_until([&] { return run_.err().find("step 1/") != std::string::npos; });
  }
  const ProcessMark& mark() const { return mark_; }
  LiveRun& run() { return run_; }
  // Waits for its end. Returns its exit status.
  int wait() { return run_.end_by(0); }

 private:
  ProcessMark mark_;
  LiveRun run_;
};

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
