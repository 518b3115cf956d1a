// Ranks of several processes that share sequences give the bits of one process, and one cause for all when a process is lost.
#include <signal.h>

#include <chrono>
#include <string>
#include <vector>

#include "actors/engine/run_failed.hpp"
#include "catch.hpp"
#include "golden_run.hpp"
#include "real_processes.hpp"
#include "thread_processes.hpp"
#include "tiny_run.hpp"

using namespace pipetrain;
using namespace pipetrain::test;

namespace {

Layout with_process_ring(int cp, Layout layout) {
  layout.cp = cp;
  return layout;
}

}  // namespace

TEST_CASE("the parts of a sequence may be in different processes", "[processes]") {
  for (const Layout& layout :
       {with_process_ring(2, {}), with_process_ring(2, {2}), with_process_ring(2, {2, 2}), with_process_ring(4, {1, 1, 2})}) {
    const TinyRun tiny{.sequence = 16, .microbatches = 3, .layout = layout};
    const RunRecord one = run(tiny);
    const int ranks = layout.pp * layout.tp * layout.dp * layout.cp;
    for (const int processes : {2, 3, ranks}) {
      if (processes > ranks) continue;
      INFO(processes << " processes: " << to_string(tiny));
      CHECK((run_over(processes, [&] { return job_of(tiny); }) == one));
    }
  }
}

namespace {

struct ProcessRing {
  std::string golden;
  int processes;
  Layout layout;
};

// Real processes, which exchange by UCX.
void check_process_rings(const std::vector<ProcessRing>& rings) {
  for (const auto& [golden, processes, layout] : rings) {
    const TinyRun tiny{.golden = golden, .layout = layout};
    INFO(processes << " processes: " << to_string(tiny));
    const Reference reference = golden_reference(golden);
    const auto steps = static_cast<std::int64_t>(reference.loss.size());
    const RunRecord one = run(job_of(tiny), steps);
    const RunRecord several = run_in_processes(processes, tiny, steps);
    CHECK((several == one));
    check_golden(several, reference);
  }
}

}  // namespace

TEST_CASE("processes that share sequences follow the golden trajectory, to the bit as one process", "[golden][processes]") {
  Layout divided = with_process_ring(2, {2, 1, 2});
  divided.zero = 3;
  check_process_rings({{"llama2_tiny", 4, divided}, {"gpt2_tiny", 4, with_process_ring(4, {})}});
}

TEST_CASE("processes that share sequences in further layouts follow the golden trajectory", "[golden][processes][slow]") {
  check_process_rings({{"llama3_tiny", 2, with_process_ring(2, {})},
                       {"gpt2_tiny", 4, with_process_ring(2, {1, 2})},
                       {"llama3_tiny", 4, with_process_ring(2, {2, 2, 2, 1, "zb-v", 2})},
                       {"llama2_tiny", 2, with_process_ring(4, {2, 1, 1, 2})},
                       {"llama3_tiny", 4, with_process_ring(4, {2, 2, 2, 1, "1f1b"})}});
}

TEST_CASE("a process that is killed or stopped ends the others that share its sequences, which name it", "[processes]") {
  for (const int signal : {SIGKILL, SIGSTOP}) {
    const TinyRun tiny{.sequence = 16, .layout = with_process_ring(2, {2})};
    Followers followers(4, tiny);
    TrainJob job = followers.job();
    const auto control = job.processes->control;
    std::string cause;
    std::chrono::steady_clock::time_point begin;
    try {
      Trainer trainer(std::move(job));
      trainer.step();
      begin = std::chrono::steady_clock::now();
      followers.signal(1, signal);  // it shares the first stage's sequences with this one
      while (true) trainer.step();
    } catch (const RunFailed& failure) {
      cause = failure.what();
      CHECK(failure.everything_stopped());
    }
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(8));
    control->leave();
    CHECK_THAT(cause, Catch::StartsWith("process 1 (part 1) on host "));
    if (signal == SIGSTOP) followers.signal(1, SIGKILL);
    const auto ends = followers.wait();
    CHECK(ends[1] == cause);
    CHECK(ends[2] == cause);
  }
}

TEST_CASE("a rank that fails ends the others that share its sequences, with its cause", "[processes]") {
  for (const int processes : {1, 2}) {
    for (const int rank : {0, 1, 3}) {
      const TinyRun tiny{.layout = with_process_ring(2, {2})};
      const auto failures = lead(
          MemoryHub::make(processes),
          [&](int) {
            TrainJob job = job_of(tiny);
            job.fault = Fault{rank, 2, FaultKind::raise};
            return job;
          },
          [](Trainer& trainer) {
            for (int step = 0; step < 3; ++step) trainer.step();
          });
      for (const auto& failure : failures) {
        INFO(failure);
        CHECK(failure.find("rank " + std::to_string(rank) + " (stage " + std::to_string(rank / 2)) != std::string::npos);
        CHECK(failure.find("a fault was asked for") != std::string::npos);
        CHECK(failure.find("not everything stopped") == std::string::npos);
      }
    }
  }
}

TEST_CASE("processes that share sequences drop and keep apart what one process does", "[processes]") {
  const TinyRun tiny{.sequence = 16, .microbatches = 3, .dropout = 0.2, .isolated = true, .layout = with_process_ring(2, {2})};
  const RunRecord one = run(tiny);
  for (const int processes : {2, 4}) CHECK((run_over(processes, [&] { return job_of(tiny); }) == one));
}
