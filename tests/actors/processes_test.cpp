// Runs over several processes give the bits of one: over threads with a control plane and a transport in memory, and over real
// processes.
#include "catch.hpp"
#include "real_processes.hpp"
#include "schedules/builders.hpp"
#include "thread_processes.hpp"
#include "tiny_run.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
using schedules::Order;

namespace {

RunRecord run_over(int processes, const TinyRun& tiny) {
  RunRecord record;
  const auto failures = in_processes(
      MemoryHub::make(processes), [&](int) { return job_of(tiny); },
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
