// Runs over several processes give the bits of one process: over threads with a control plane and a transport in
// memory, and over real processes.
#include <array>
#include <csignal>
#include <fstream>

#include "actors/engine/run_failed.hpp"
#include "actors/training/checkpoint/checkpoint.hpp"
#include "actors/training/checkpoint/checkpoint_folder.hpp"
#include "actors/training/run/job_memory.hpp"
#include "catch.hpp"
#include "core/error.hpp"
#include "real_processes.hpp"
#include "schedules/builders/builders.hpp"
#include "temp_folder.hpp"
#include "thread_processes.hpp"
#include "tiny_run.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
using schedules::Order;

namespace {

void check_same_processes(const std::vector<int>& processes, const TinyRun& tiny) {
  const RunRecord one = run(tiny);
  for (const int count : processes) {
    INFO(count << " processes: " << to_string(tiny));
    CHECK((run_over(count, [&] { return job_of(tiny); }) == one));
  }
}

}  // namespace

TEST_CASE("a pipeline over two processes gives the bits of one", "[processes]") {
  check_same_processes({2}, {.layout = {.pp = 2}});
}

TEST_CASE("every placement of stages and replicas on processes gives the bits of one", "[processes]") {
  check_same_processes({2, 4}, {.layers = 4, .microbatches = 4, .layout = {.pp = 4}});
  check_same_processes({3}, {.layers = 4, .microbatches = 4, .layout = {.pp = 4}});  // the first one runs two stages
  check_same_processes({2}, {.layout = {.dp = 2}});
  check_same_processes({2}, {.dropout = 0.3, .isolated = true, .layout = {.pp = 2, .dp = 2}});
  check_same_processes({2, 3, 4}, {.layout = {.pp = 2, .dp = 2}});
  check_same_processes({2}, {.layout = {.pp = 2, .tp = 2}});
  check_same_processes({2, 4}, {.layout = {.pp = 2, .tp = 2, .dp = 2}});
}

TEST_CASE("models with routed experts give the bits of one process over several", "[processes][experts]") {
  for (const Layout& layout : {Layout{2, 1, 1, 2}, Layout{2, 2, 1, 2, "zb-h1"}, Layout{2, 1, 2, 1}}) {
    const auto job = [&] { return golden_job("qwen3_moe_tiny", layout); };
    const RunRecord one = run(job(), 2);
    for (const int processes : {2, 4}) {
      if (processes > layout.pp * layout.tp * layout.dp) continue;
      INFO(processes << " processes: " << to_string(layout));
      CHECK((run_over(processes, job) == one));
    }
  }
}

TEST_CASE("every schedule, order and way to recompute gives the bits of one process over several", "[processes]") {
  for (const auto& schedule : schedules::all_schedules()) {
    for (const auto order : {Order::planned, Order::ready}) {
      if (order == Order::ready && !schedule.has_ready_rule) continue;
      TinyRun tiny{.layers = 4, .microbatches = 4, .layout = {.pp = 2}};
      tiny.layout.schedule = schedule.name;
      tiny.layout.chunks = schedule.default_chunks;
      tiny.layout.order = order;
      check_same_processes({2}, tiny);
    }
  }
  for (const Recompute mode : {Recompute::selective, Recompute::full}) {
    TinyRun tiny{.microbatches = 4, .layout = {.pp = 2, .schedule = "zb-h1"}};
    tiny.layout.recompute = mode;
    check_same_processes({2}, tiny);
  }
}

TEST_CASE("the two places of a tied weight may be in different processes", "[processes]") {
  check_same_processes({2}, {.family = Family::gpt2, .tied = true, .layout = {.pp = 2}});
  check_same_processes({2, 4}, {.family = Family::gpt2, .tied = true, .layout = {.pp = 2, .dp = 2}});
  check_same_processes(
      {2}, {.family = Family::gpt2, .tied = true, .layers = 4, .layout = {.pp = 2, .schedule = "zb-v", .chunks = 2}});
}

TEST_CASE("tensor-parallel ranks may be in different processes, which cuts all stages alike", "[processes]") {
  check_same_processes({2}, {.layout = {.tp = 2}});
  check_same_processes({3}, {.layout = {.pp = 2, .tp = 2}});  // the first stage is in one process, the second in two
  check_same_processes({4}, {.microbatches = 4, .layout = {.pp = 2, .tp = 2}});
  check_same_processes({4, 8}, {.microbatches = 4, .layout = {.pp = 2, .tp = 2, .dp = 2}});
  check_same_processes({2}, {.family = Family::gpt2, .tied = true, .layout = {.tp = 2, .sequence_parallel = false}});
  const Layout four{.tp = 4, .microbatch = 2};
  const RunRecord one = run(golden_job("llama3_tiny", four), 2);
  for (const int processes : {2, 3, 4}) CHECK((run_over(processes, [&] { return golden_job("llama3_tiny", four); }) == one));
  check_same_processes({4}, {.layers = 4, .microbatches = 4, .layout = {.pp = 2, .tp = 2, .schedule = "zb-v", .chunks = 2}});
  const auto failures = in_processes(
      MemoryHub::make(2), [](int) { return job_of({.layout = {.tp = 2, .order = Order::ready}}); },
      [](int, TrainJob job) { Trainer(std::move(job)).follow(); });
  for (const auto& failure : failures) CHECK(failure.rfind("order ready: ", 0) == 0);
}

TEST_CASE("process 0 knows the memory of each rank's device", "[processes]") {
  const TinyRun tiny{.layout = {.pp = 2, .tp = 2, .dp = 2}};
  const auto one = Trainer(job_of(tiny)).memory();
  std::vector<DeviceMemory> several;
  lead(
      MemoryHub::make(8), [&](int) { return job_of(tiny); }, [&](Trainer& trainer) { several = trainer.memory(); });
  REQUIRE(several.size() == one.size());
  for (std::size_t rank = 0; rank < one.size(); ++rank) {
    CHECK(several[rank].rank == one[rank].rank);
    CHECK(several[rank].use.parameters == one[rank].use.parameters);
    CHECK(several[rank].use.activations == one[rank].use.activations);
    CHECK(several[rank].use.queues >= one[rank].use.queues);  // mirrors
  }
}

TEST_CASE("actions of all processes are traced", "[processes]") {
  const TinyRun tiny{.layout = {.pp = 2, .tp = 2}};
  const auto failures = lead(
      MemoryHub::make(4), [&](int) { return job_of(tiny); },
      [&](Trainer& trainer) {
        const StepReport report = trainer.step();
        if (report.devices.size() != 4 || report.trace.size() != 2) throw std::logic_error("devices are missing");
        const auto& first = report.devices.front().actions.front().times;
        for (const auto& device : report.devices) {
          for (const auto& one : device.actions) {
            if (one.times.end < one.times.start || one.times.start - first.start > std::chrono::minutes(5) ||
                first.start - one.times.start > std::chrono::minutes(5))
              throw std::logic_error("a time of another clock");
          }
        }
      });
  CHECK(failures == std::vector<std::string>(4));
}

TEST_CASE("everybody can ask who waits for whom in the whole run", "[processes]") {
  const TinyRun tiny{.layout = {.pp = 2}};
  std::vector<std::string> lines;
  const auto failures = in_processes(
      MemoryHub::make(2), [&](int) { return job_of(tiny); },
      [&](int process, TrainJob job) {
        Trainer trainer(std::move(job));
        if (process == 0) {
          trainer.step();
          while (true) trainer.step();
        }
        lines = trainer.waiting();
        trainer.abort(std::make_exception_ptr(Error(ErrorKind::aborted, "enough")));
        trainer.follow();
      });
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].rfind("stage 0: ", 0) == 0);
  CHECK(lines[1].rfind("stage 1: ", 0) == 0);
}

TEST_CASE("a checkpoint of several processes is that of one, and any number of processes resumes from it", "[processes]") {
  const TinyRun tiny{.microbatches = 4, .layout = {.pp = 2, .tp = 2}};
  const auto bytes = [](const TempFolder& folder, int step, const char* file) {
    std::ifstream stream(checkpoint_path(folder.path(), step) / file, std::ios::binary);
    REQUIRE(stream);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  };
  const TempFolder one, several, resumed;
  {
    Trainer trainer(job_of(tiny));
    for (int step = 1; step <= 4; ++step) trainer.step();
    trainer.start_checkpoint(one.path()).get();
  }
  lead(
      MemoryHub::make(4), [&](int) { return job_of(tiny); },
      [&](Trainer& trainer) {
        trainer.step();
        trainer.step();
        trainer.start_checkpoint(several.path()).get();
        trainer.step();
        trainer.step();
        trainer.start_checkpoint(several.path()).get();
      });
  const auto files = {"rank-00000.safetensors", "rank-00001.safetensors", "rank-00002.safetensors", "rank-00003.safetensors"};
  for (const char* file : files) CHECK(bytes(several, 4, file) == bytes(one, 4, file));
  for (const char* file : {"state.json", "config.json"}) CHECK(bytes(several, 4, file) == bytes(one, 4, file));
  const auto going_on = [&](int) {
    TrainJob job = job_of(tiny);
    const CheckpointManifest manifest = verify_checkpoint(checkpoint_path(several.path(), 2));
    job.initial = open_checkpoint(checkpoint_path(several.path(), 2), manifest, job.config);
    job.steps_done = manifest.state.step;
    return job;
  };
  lead(MemoryHub::make(2), going_on, [&](Trainer& trainer) {
    trainer.step();
    trainer.step();
    trainer.start_checkpoint(resumed.path()).get();
  });
  for (const char* file : files) CHECK(bytes(resumed, 4, file) == bytes(one, 4, file));
}

TEST_CASE("real processes that exchange by UCX give the bits of one", "[processes]") {
  for (const TinyRun& tiny :
       {TinyRun{.layout = {.pp = 2}}, TinyRun{.family = Family::gpt2, .tied = true, .layout = {.pp = 2}},
        TinyRun{.layout = {.dp = 2}}, TinyRun{.layout = {.tp = 2}},
        TinyRun{.tied = true, .layout = {.dp = 2, .zero = most_zero_stages}},
        TinyRun{.precision = 1, .layout = {.pp = 2, .dp = 2}}, TinyRun{.precision = 2, .layout = {.pp = 2, .tp = 2}}}) {
    INFO(to_string(tiny));
    const RunRecord one = run(tiny);
    CHECK((run_in_processes(2, tiny, 2) == one));
  }
}

TEST_CASE("the estimate for several processes is what they hold, with mirrors and pieces on their way", "[processes]") {
  const auto bytes = [](const std::vector<DeviceMemory>& devices) {
    std::vector<std::array<std::size_t, 3>> all;
    for (const DeviceMemory& device : devices) all.push_back({device.use.queues, device.use.workspace, device.use.total()});
    return all;
  };
  for (const TinyRun& tiny :
       {TinyRun{.tied = true, .layout = {.pp = 2}}, TinyRun{.layout = {.pp = 2, .schedule = "zb-v", .chunks = 2}},
        TinyRun{.layout = {.dp = 2}}, TinyRun{.layout = {.tp = 2}}, TinyRun{.precision = 1, .layout = {.pp = 2, .dp = 2}}}) {
    INFO(to_string(tiny));
    const TrainJob alone = job_of(tiny);
    const auto estimated = estimate_job(alone, PlannedProcesses{2, TransportKind::ucx}).devices;
    Followers followers(2, tiny);
    TrainJob job = followers.job();
    const auto control = job.processes->control;
    std::vector<DeviceMemory> held;
    {
      Trainer trainer(std::move(job));
      held = trainer.memory();
    }
    control->leave();
    CHECK(followers.wait() == std::vector<std::string>{""});
    CHECK(bytes(held) == bytes(estimated));
    std::size_t in_one = 0, in_several = 0;
    for (const DeviceMemory& device : estimate_job(alone).devices) in_one += device.use.total();
    for (const DeviceMemory& device : estimated) in_several += device.use.total();
    CHECK(in_several > in_one);
  }
}

TEST_CASE("four real processes with stages, replicas and tensor-parallel ranks give the bits of one", "[processes]") {
  const TinyRun tiny{.microbatches = 4, .layout = {.pp = 2, .tp = 2, .dp = 2, .schedule = "zb-h1"}};
  const RunRecord one = run(tiny);
  CHECK((run_in_processes(4, tiny, 2) == one));
}

TEST_CASE("a real process that is killed, stopped or fails ends the others, which name it", "[processes]") {
  const TinyRun tiny{.layers = 3, .layout = {.pp = 3}};
  for (const int signal : {SIGKILL, SIGSTOP, 0}) {
    INFO("signal " << signal);
    Followers followers(3, tiny, signal == 0 ? std::vector<std::string>{"TEST_FAULT=2:2:throw"} : std::vector<std::string>{});
    TrainJob job = followers.job();
    const auto control = job.processes->control;
    std::string cause;
    std::chrono::steady_clock::time_point begin;
    try {
      Trainer trainer(std::move(job));
      trainer.step();
      begin = std::chrono::steady_clock::now();
      if (signal != 0) followers.signal(2, signal);
      while (true) trainer.step();
    } catch (const RunFailed& failure) {
      cause = failure.what();
      CHECK(failure.everything_stopped());
      CHECK(failure.waiting().size() == 3);
    }
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(8));
    control->leave();
    const std::string expected =
        signal == 0 ? "rank 2 (stage 2, tp rank 0, replica 0) in step 2: " : "process 2 (part 2) on host ";
    CHECK(cause.rfind(expected, 0) == 0);
    if (signal == SIGSTOP) followers.signal(2, SIGKILL);
    const auto ends = followers.wait();
    CHECK(ends[0] == cause);
  }
}
