// Runs on GPUs whose ranks share sequences. They share a GPU too: what goes round in the ring is copied on the same streams,
// behind the same events.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <vector>

#include "actors/cuda/gpu_job.hpp"
#include "actors/engine/run_failed.hpp"
#include "actors/golden_run.hpp"
#include "actors/real_processes.hpp"
#include "actors/training/run/job_memory.hpp"
#include "catch.hpp"
#include "comm/nccl/nccl_transport.hpp"
#include "data/samples/split.hpp"
#include "model/config/mode_names.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
using schedules::Order;

namespace {

Layout with_gpu_ring(int cp, Layout layout = {}) {
  layout.cp = cp;
  return layout;
}

ModelConfig config_of(std::int64_t head_dim) {
  ModelConfig config = half_config();
  config.head_dim = head_dim;
  config.max_positions = 1024;
  return config;
}

// Sequences of `sequence` tokens, with a rising rate under which no update changes its sign.
TrainJob ring_job(const ModelConfig& config, std::int64_t sequence, const Layout& layout) {
  TrainJob job = random_job(config, sequence, 4, layout);
  job.learning_rate.warmup_steps = 10;
  return job;
}

std::optional<RunRecord> run_ring_on_gpu(TrainJob job, const Precision& precision, std::int64_t steps, int gpus = 1) {
  if (!computes(precision) || !on_gpus(job, gpus, precision)) return std::nullopt;
  if (precision == Precision::fp16()) job.loss_scale = {.dynamic = true, .initial = 1024};
  return run(std::move(job), steps);
}

// Returns the transports that connect processes with a GPU each; none without two GPUs.
std::vector<std::string> transports_of_processes() {
  if (!needs_gpus(cuda_device_count(), 2)) return {};
  if (!has_nccl()) return {"ipc"};
  return {"ipc", "nccl"};
}

// Compares losses and norms: the first step has gradients of the same weights, later steps of weights that rounding has
// changed.
void check_close_rings(const RunRecord& a, const RunRecord& b, double loss, double norm) {
  constexpr std::size_t compared = 4;
  REQUIRE(std::min(a.loss.size(), b.loss.size()) >= compared);
  for (std::size_t step = 0; step < compared; ++step) {
    INFO("step " << step + 1 << ": " << a.loss[step] << " and " << b.loss[step] << ", norms " << a.grad_norm[step] << " and "
                 << b.grad_norm[step]);
    const double share = step == 0 ? 0.2 : 1;
    CHECK(std::abs(a.loss[step] / b.loss[step] - 1) <= share * loss);
    CHECK(std::abs(a.grad_norm[step] / b.grad_norm[step] - 1) <= share * norm);
  }
}

}  // namespace

TEST_CASE("ranks on a GPU that share sequences follow the golden trajectories in fp32, the same bits at every pp",
          "[gpu][golden][context]") {
  for (const std::string name : {"llama2_tiny", "llama3_tiny", "gpt2_tiny"}) {
    const Reference reference = golden_reference(name);
    const auto steps = static_cast<std::int64_t>(reference.loss.size());
    for (const Layout& layout : {with_gpu_ring(2), with_gpu_ring(4), with_gpu_ring(2, {1, 2}), with_gpu_ring(2, {1, 1, 2})}) {
      INFO(name << " " << to_string(layout));
      const auto first = run_ring_on_gpu(golden_job(name, layout), Precision::fp32(), steps);
      if (!first) return;
      check_golden(*first, reference);
      if (layout.tp * layout.dp > 1 && name != "llama3_tiny") continue;
      Layout other = layout;
      other.pp = 2;
      CHECK((run_ring_on_gpu(golden_job(name, other), Precision::fp32(), steps) == first));
    }
  }
}

TEST_CASE("every schedule and every way to keep state gives the same bits of ranks on a GPU that share sequences",
          "[gpu][context]") {
  const auto on_gpu = [](const Layout& layout, const Offload& offload = {}) {
    TrainJob job = ring_job(config_of(64), 512, layout);
    job.offload = offload;
    return run_ring_on_gpu(std::move(job), Precision::bf16(), 3);
  };
  const Layout two = with_gpu_ring(2, {2});
  const auto first = on_gpu(two);
  if (!first) return;
  CHECK((on_gpu(two) == first));
  Layout full = two, states = two, divided = two, gathered = two, late = two, ready = two;
  full.recompute = Recompute::full, states.zero = 1, divided.zero = 2, gathered.zero = 3, late.schedule = "zb-h1",
  ready.order = Order::ready;
  for (const Layout& same :
       {with_gpu_ring(2, {4}), with_gpu_ring(2, {2, 1, 1, 1, "interleaved", 2}), with_gpu_ring(2, {2, 1, 1, 1, "zb-v", 2}),
        with_gpu_ring(2, {2, 1, 1, 1, "gpipe"}), full, states, divided, gathered, late, ready}) {
    INFO(to_string(same));
    CHECK((on_gpu(same) == first));
  }
  CHECK((on_gpu(two, {.optimizer = true, .parameters = true, .gradients = true}) == first));
}

TEST_CASE("activations that leave a GPU and a loss in chunks give the same bits of ranks that share sequences",
          "[gpu][context]") {
  const auto on_gpu = [](const Layout& layout) {
    TrainJob job = random_job(config_of(64), 512, 12, layout);
    job.learning_rate.warmup_steps = 10;
    return run_ring_on_gpu(std::move(job), Precision::bf16(), 4);
  };
  Layout stays = with_gpu_ring(2, {2, 1, 1, 1, "gpipe"}), leaves = stays;
  leaves.activations = 1;
  const auto first = on_gpu(stays);
  if (!first) return;
  CHECK((on_gpu(leaves) == first));

  Layout chunked = with_gpu_ring(2), deep = with_gpu_ring(2, {2}), alone;
  chunked.loss_chunks = deep.loss_chunks = alone.loss_chunks = 3;
  const auto shared = on_gpu(chunked);
  check_close_rings(*shared, *on_gpu(alone), 5e-3, 5e-2);
  CHECK((on_gpu(deep) == shared));
}

TEST_CASE("ranks on a GPU that share sequences learn what one rank learns in 8 and 16 bits, the same bits every time",
          "[gpu][context]") {
  struct Case {
    Precision precision;
    std::int64_t head_dim, kv_heads, sequence;
    Layout layout;
    double loss = 5e-3, norm = 5e-2;
  };
  const std::vector<Case> cases{
      {Precision::bf16(), 64, 2, 512, with_gpu_ring(2, {1, 1, 1, 2})},
      {Precision::bf16(), 128, 1, 1024, with_gpu_ring(4)},
      {Precision::bf16(), 128, 4, 512, with_gpu_ring(2, {1, 2})},
      {Precision::bf16(), 64, 2, 488, with_gpu_ring(2)},  // lengths that Hopper's kernel does not support
      {Precision::fp16(), 64, 2, 512, with_gpu_ring(2)},
      {Precision::fp8(), 64, 2, 512, with_gpu_ring(2), 2e-2, 0.1},
  };
  for (const auto& [precision, head_dim, kv_heads, sequence, layout, loss, norm] : cases) {
    ModelConfig config = config_of(head_dim);
    config.kv_heads = kv_heads;
    const auto on_gpu = [&, precision = precision, sequence = sequence](const Layout& of) {
      return run_ring_on_gpu(ring_job(config, sequence, of), precision, 6);
    };
    Layout whole = layout, deep = layout;
    whole.cp = 1, deep.pp = 2;
    const auto one = on_gpu(whole), shared = on_gpu(layout);
    if (!one) continue;
    INFO(numbers_name(precision) << ", heads of " << head_dim << ", " << sequence << " tokens, " << to_string(layout));
    check_close_rings(*shared, *one, loss, norm);
    CHECK((on_gpu(layout) == shared));
    CHECK((on_gpu(deep) == shared));
  }
}

TEST_CASE("an evaluation finds the same loss on a GPU at every cp, and steps may begin before the verdict", "[gpu][context]") {
  const auto evaluated = [](int cp, int pp, bool early) {
    TrainJob job = ring_job(config_of(64), 512, with_gpu_ring(cp, {.pp = pp}));
    on_gpus(job, 1, Precision::bf16());
    job.evaluation = split_dataset(job.dataset, 0.1, 3).evaluation;
    job.post_validation = early;
    Trainer trainer(std::move(job));
    std::vector<double> losses;
    for (int step = 0; step < 2; ++step) {
      losses.push_back(trainer.evaluate()->loss);
      losses.push_back(trainer.step().loss);
    }
    return losses;
  };
  if (!needs_gpus(cuda_device_count())) return;
  const auto whole = evaluated(1, 1, false), shared = evaluated(2, 1, false);
  for (std::size_t i = 0; i < whole.size(); ++i) CHECK(shared[i] == Approx(whole[i]).epsilon(2e-3));
  CHECK(evaluated(2, 2, false) == shared);
  CHECK(evaluated(2, 2, true) == shared);
}

TEST_CASE("a GPU keeps an Nth of the activations of sequences that N ranks share", "[gpu][context]") {
  std::size_t before = 0;
  for (const int cp : {1, 2, 4}) {
    TrainJob job = ring_job(config_of(64), 1024, with_gpu_ring(cp));
    if (!on_gpus(job, 1, Precision::bf16())) return;
    const auto estimated = estimate_job(job).devices;
    Trainer trainer(std::move(job));
    const auto taken = trainer.memory();
    REQUIRE(taken.size() == static_cast<std::size_t>(cp));
    CHECK(taken.front().use.total() == estimated.front().use.total());
    const std::size_t activations = taken.front().use.activations;
    if (before > 0) CHECK(static_cast<double>(activations) < 0.52 * static_cast<double>(before));
    before = activations;
  }
}

TEST_CASE("GPUs that share sequences give the bits of ranks that share a GPU", "[gpu][context]") {
  for (const Layout& layout : {with_gpu_ring(2), with_gpu_ring(4), with_gpu_ring(2, {2}), with_gpu_ring(2, {1, 2})}) {
    const auto on = [&](int gpus) {
      return run_ring_on_gpu(ring_job(config_of(64), 1024, layout), Precision::bf16(), 3, gpus);
    };
    const auto apart = on(layout.cp * layout.pp * layout.tp);
    if (!apart) continue;
    INFO(to_string(layout));
    CHECK((on(1) == apart));
  }
}

TEST_CASE("a rank that fails on a GPU ends the others that share its sequences", "[gpu][context]") {
  for (const int rank : {0, 1, 3}) {
    TrainJob job = ring_job(config_of(64), 512, with_gpu_ring(2, {2}));
    if (!on_gpus(job, 1, Precision::bf16())) return;
    job.fault = Fault{rank, 2, FaultKind::raise};
    Trainer trainer(std::move(job));
    static_cast<void>(trainer.step());
    CHECK_THROWS_WITH(trainer.step(), Catch::Contains("a fault was asked for"));
  }
}

TEST_CASE("processes that share sequences follow the golden trajectories, to the bit as one process",
          "[gpu][golden][context][processes]") {
  struct Case {
    std::string golden;
    int processes;
    Layout layout;
  };
  for (const std::string& transport : transports_of_processes()) {
    for (const auto& [golden, processes, layout] : std::vector<Case>{{"llama3_tiny", 2, with_gpu_ring(2)},
                                                                     {"gpt2_tiny", 4, with_gpu_ring(2, {2})},
                                                                     {"llama2_tiny", 2, with_gpu_ring(4)}}) {
      if (transport == "nccl" && layout.cp > 2) continue;  // NCCL refuses two ranks of a process on one GPU
      if (!needs_gpus(cuda_device_count(), processes)) continue;
      const TinyRun tiny{.golden = golden, .layout = layout};
      INFO(transport << ", " << processes << " processes: " << to_string(tiny));
      const Reference reference = golden_reference(golden);
      const auto steps = static_cast<std::int64_t>(reference.loss.size());
      const auto one = run_ring_on_gpu(golden_job(golden, layout), Precision::fp32(), steps);
      const RunRecord several = run_in_processes(processes, tiny, steps, transport);
      CHECK((several == one));
      check_golden(several, reference);
    }
  }
}

TEST_CASE("a process that is killed ends the one that shares its sequences, which names it", "[gpu][context][processes]") {
  for (const std::string& transport : transports_of_processes()) {
    INFO(transport);
    Followers followers(2, {.golden = "llama3_tiny", .layout = with_gpu_ring(2)}, {"TEST_ON_GPU=" + transport});
    TrainJob job = followers.job();
    use_own_gpu(job, transport);
    const auto control = job.processes->control;
    std::string cause;
    std::chrono::steady_clock::time_point begin;
    try {
      Trainer trainer(std::move(job));
      trainer.step();
      begin = std::chrono::steady_clock::now();
      followers.signal(1, SIGKILL);
      while (true) trainer.step();
    } catch (const RunFailed& failure) {
      cause = failure.what();
      CHECK(failure.everything_stopped());
    }
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(12));
    control->leave();
    CHECK_THAT(cause, Catch::StartsWith("process 1 (part 1) on host "));
  }
}
