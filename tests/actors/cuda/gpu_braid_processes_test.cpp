// Braids of ranks that share matrices or experts and have a GPU and a process each, over CUDA IPC and NCCL.
#include <signal.h>

#include <chrono>
#include <string>
#include <vector>

#include "actors/cuda/gpu_job.hpp"
#include "actors/engine/run_failed.hpp"
#include "actors/golden_run.hpp"
#include "actors/ranks/run_processes.hpp"
#include "actors/real_processes.hpp"
#include "actors/training/run/trainer.hpp"
#include "catch.hpp"
#include "comm/nccl/nccl_transport.hpp"

using namespace pipetrain;
using namespace pipetrain::test;

namespace {

struct BraidProcesses {
  std::string golden;
  Layout layout;
  int processes() const { return layout.pp * layout.tp * layout.dp; }
};

Layout braided_apart(Layout layout, int ep = 1) {
  layout.schedule = "braided-v";
  layout.chunks = 2;
  layout.ep = ep;
  return layout;
}

// Returns the transports between processes that have a GPU each; none where there are too few GPUs.
std::vector<std::string> braid_transports(int processes) {
  if (!needs_gpus(cuda_device_count(), processes)) return {};
  if (!has_nccl()) return {"ipc"};
  return {"ipc", "nccl"};
}

// Returns the first line with which the run ends in this process.
template <class Step>
std::string end_of_braids(TrainJob job, Step between) {
  try {
    Trainer trainer(std::move(job));
    trainer.step();
    between();
    for (int step = 0; step < 1000; ++step) trainer.step();
  } catch (const RunFailed& failure) {
    CHECK(failure.everything_stopped());
    return failure.what();
  }
  return "";
}

void check_bits_over_processes(const std::vector<BraidProcesses>& runs) {
  for (const BraidProcesses& braids : runs) {
    const int processes = braids.processes();
    for (const std::string& transport : braid_transports(processes)) {
      const TinyRun tiny{.golden = braids.golden, .layout = braids.layout};
      INFO(transport << ": " << to_string(tiny));
      const Reference reference = golden_reference(braids.golden);
      const auto steps = static_cast<std::int64_t>(reference.loss.size());
      TrainJob alone = golden_job(braids.golden, braids.layout);
      REQUIRE(on_gpus(alone, processes));
      const RunRecord one = run(std::move(alone), steps);
      const RunRecord several = run_in_processes(processes, tiny, steps, transport);
      CHECK((several == one));
      check_golden(several, reference);
    }
  }
}

}  // namespace

TEST_CASE("two processes with a GPU each braid with the bits of one process", "[gpu][golden][braids][processes][experts]") {
  check_bits_over_processes({{"llama3_tiny", braided_apart({1, 2})},
                             {"gpt2_tiny", braided_apart({1, 2})},
                             {"mixtral_tiny", braided_apart({1, 1, 2, 2}, 2)},
                             {"deepseek_v3_tiny", braided_apart({1, 1, 2, 2}, 2)}});
}

TEST_CASE("four processes with a GPU each braid with the bits of one process", "[gpu][golden][braids][processes][experts]") {
  check_bits_over_processes({{"llama3_tiny", braided_apart({2, 2})},
                             {"mixtral_tiny", braided_apart({2, 1, 2, 2}, 2)},
                             {"qwen2_moe_tiny", braided_apart({1, 2, 2, 2}, 2)}});
}

// Not with experts: their kernels that wait for a lost process end in a trap, after which this process has no GPU for the cases
// that follow.
TEST_CASE("a process that is killed among braids ends the others, which name it", "[gpu][braids][processes]") {
  for (const std::string& transport : braid_transports(2)) {
    INFO(transport);
    Followers followers(2, {.golden = "llama3_tiny", .layout = braided_apart({1, 2})}, {"TEST_ON_GPU=" + transport});
    TrainJob job = followers.job();
    use_own_gpu(job, transport);
    const auto control = job.processes->control;
    std::chrono::steady_clock::time_point begin;
    const std::string cause = end_of_braids(std::move(job), [&] {
      begin = std::chrono::steady_clock::now();
      followers.signal(1, SIGKILL);
    });
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(12));
    control->leave();
    CHECK_THAT(cause, Catch::StartsWith("process 1 (part 1) on host "));
  }
}

TEST_CASE("a fault in a process among braids ends all with its cause", "[gpu][braids][processes]") {
  for (const std::string& transport : braid_transports(2)) {
    INFO(transport);
    Followers followers(2, {.golden = "llama3_tiny", .layout = braided_apart({1, 2})},
                        {"TEST_ON_GPU=" + transport, "TEST_FAULT=1:2:throw"});
    TrainJob job = followers.job();
    use_own_gpu(job, transport);
    const auto control = job.processes->control;
    const std::string cause = end_of_braids(std::move(job), [] {});
    control->leave();
    CHECK_THAT(cause, Catch::Contains("a fault was asked for"));
    for (const std::string& end : followers.wait()) CHECK_THAT(end, Catch::Contains("a fault was asked for"));
  }
}
