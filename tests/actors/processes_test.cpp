// Runs over several processes give the bits of one, and end everywhere when one part fails. The processes are threads here, on
// a control plane and a transport in memory.
#include <functional>
#include <thread>

#include "actors/training/run_processes.hpp"
#include "catch.hpp"
#include "memory_processes.hpp"
#include "real_processes.hpp"
#include "schedules/builders.hpp"
#include "tiny_run.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
using schedules::Order;

namespace {

using Work = std::function<void(int process, TrainJob job)>;

// Does the work in each of so many processes; returns what each threw, "" for nothing.
std::vector<std::string> in_processes(const std::shared_ptr<MemoryHub>& hub, int processes,
                                      const std::function<TrainJob(int)>& job_of_process, const Work& work) {
  std::vector<std::string> failures(static_cast<std::size_t>(processes));
  std::vector<std::thread> threads;
  for (int process = 0; process < processes; ++process) {
    threads.emplace_back([&, process] {
      auto control = hub->control(process);
      try {
        TrainJob job = job_of_process(process);
        job.processes = std::make_shared<RunProcesses>();
        job.processes->control = control;
        job.processes->make_transport = [hub](ControlPlane& plane, const Mesh&) { return hub->transport(plane); };
        work(process, std::move(job));
      } catch (const RunFailed& failure) {
        failures[static_cast<std::size_t>(process)] = failure.what();
        for (const auto& line : failure.waiting()) failures[static_cast<std::size_t>(process)] += "\n" + line;
        if (!failure.everything_stopped()) failures[static_cast<std::size_t>(process)] += "\nnot everything stopped";
      } catch (const std::exception& error) {
        failures[static_cast<std::size_t>(process)] = error.what();
      }
      control->leave();
    });
  }
  for (auto& thread : threads) thread.join();
  return failures;
}

RunRecord run_over(int processes, const TinyRun& tiny) {
  RunRecord record;
  const auto failures = in_processes(
      MemoryHub::make(processes), processes, [&](int) { return job_of(tiny); },
      [&](int process, TrainJob job) {
        if (process == 0) {
          record = run(std::move(job), 2);
        } else {
          Trainer(std::move(job)).follow();
        }
      });
  for (int process = 0; process < processes; ++process) {
    INFO("process " << process);
    CHECK(failures[static_cast<std::size_t>(process)] == "");
  }
  return record;
}

void check_same(const std::vector<int>& processes, const TinyRun& tiny) {
  const RunRecord one = run(tiny);
  for (const int count : processes) {
    INFO(count << " processes: " << to_string(tiny));
    CHECK((run_over(count, tiny) == one));
  }
}

}  // namespace

TEST_CASE("a pipeline over two processes gives the bits of one", "[processes]") { check_same({2}, {.layout = {.pp = 2}}); }

TEST_CASE("every placement of stages and replicas on processes gives the bits of one", "[processes]") {
  check_same({2, 4}, {.layers = 4, .microbatches = 4, .layout = {.pp = 4}});
  check_same({3}, {.layers = 4, .microbatches = 4, .layout = {.pp = 4}});  // the first one runs two stages
  check_same({2}, {.layout = {.dp = 2}});
  check_same({2, 3, 4}, {.layout = {.pp = 2, .dp = 2}});
  check_same({2}, {.layout = {.pp = 2, .tp = 2}});
  check_same({2, 4}, {.layout = {.pp = 2, .tp = 2, .dp = 2}});
}

TEST_CASE("every schedule, order and way to recompute gives the bits of one process over several", "[processes]") {
  for (const auto& schedule : schedules::all_schedules()) {
    for (const auto order : {Order::planned, Order::ready}) {
      if (order == Order::ready && !schedule.has_ready_rule) continue;
      TinyRun tiny{.layers = 4, .microbatches = 4, .layout = {.pp = 2}};
      tiny.layout.schedule = schedule.name;
      tiny.layout.chunks = schedule.default_chunks;
      tiny.layout.order = order;
      check_same({2}, tiny);
    }
  }
  for (const Recompute mode : {Recompute::selective, Recompute::full}) {
    TinyRun tiny{.microbatches = 4, .layout = {.pp = 2, .schedule = "zb-h1"}};
    tiny.layout.recompute = mode;
    check_same({2}, tiny);
  }
}

TEST_CASE("the two places of a tied weight may be in different processes", "[processes]") {
  check_same({2}, {.family = Family::gpt2, .tied = true, .layout = {.pp = 2}});
  check_same({2, 4}, {.family = Family::gpt2, .tied = true, .layout = {.pp = 2, .dp = 2}});
  check_same({2}, {.family = Family::gpt2, .tied = true, .layers = 4, .layout = {.pp = 2, .schedule = "zb-v", .chunks = 2}});
}

TEST_CASE("real processes that exchange by UCX give the bits of one", "[processes]") {
  for (const TinyRun& tiny : {TinyRun{.layout = {.pp = 2}}, TinyRun{.family = Family::gpt2, .tied = true, .layout = {.pp = 2}},
                              TinyRun{.layout = {.dp = 2}}}) {
    INFO(to_string(tiny));
    const RunRecord one = run(tiny);
    Followers followers(2, tiny);
    TrainJob job = followers.job();
    const auto control = job.processes->control;
    CHECK((run(std::move(job), 2) == one));
    control->leave();
    CHECK(followers.wait() == std::vector<std::string>{""});
  }
}
