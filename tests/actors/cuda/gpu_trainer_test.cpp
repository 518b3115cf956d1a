// Whole runs on GPUs: fp32 compared with the golden trajectories, bf16, fp16 and fp8 with fp32. Ranks share a GPU if
// there are too few: the arithmetic is the same, but the links are not used.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "actors/cuda/gpu_job.hpp"
#include "actors/engine/run_failed.hpp"
#include "actors/golden_run.hpp"
#include "catch.hpp"
#include "core/device.hpp"
#include "core/device_name.hpp"
#include "core/error.hpp"
#include "data/samples/split.hpp"
#include "model/config/mode_names.hpp"
#include "skip.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
using schedules::Order;

namespace {

void check_golden_on(int gpus, const std::vector<Layout>& layouts) {
  for (const std::string name : {"llama2_tiny", "llama3_tiny", "gpt2_tiny"}) {
    const Reference reference = golden_reference(name);
    for (const Layout& layout : layouts) {
      TrainJob job = golden_job(name, layout);
      if (!on_gpus(job, gpus)) return;
      INFO(name << " " << to_string(layout) << " on " << gpus << " GPUs");
      check_golden(run(std::move(job), static_cast<std::int64_t>(reference.loss.size())), reference);
    }
  }
}

// A run whose rate rises over ten steps. At the full rate from the first step on, Adam's first updates change every weight by
// its rate, whatever the gradient's size, so that a rounding that changes a sign changes the loss by several per cent.
TrainJob gentle_gpu_job(const ModelConfig& config, const Layout& layout) {
  TrainJob job = random_job(config, 128, 8, layout);
  job.learning_rate.warmup_steps = 10;
  return job;
}

// Checks thirty deterministic steps: equal bits on every layout, and close to the reference.
void check_follows(const ModelConfig& config, const Precision& precision, const RunRecord& reference) {
  const double tolerance = precision.fp8_products ? 0.05 : 0.01;
  RunRecord first;
  for (const int gpus : {1, 2}) {
    for (const Layout layout : {Layout{1, 1, 1, 2}, Layout{2, 1, 1, 2}, Layout{2, 1, 1, 2, "zb-h1"}}) {
      TrainJob job = gentle_gpu_job(config, layout);
      if (!computes(precision) || !on_gpus(job, gpus, precision)) continue;
      if (precision == Precision::fp16()) job.loss_scale = {.dynamic = true, .initial = 65536};
      INFO(numbers_name(precision) << ", tied " << config.tied_embeddings << ", " << to_string(layout) << " on " << gpus
                                   << " GPUs");
      const RunRecord record = run(std::move(job), 30);
      if (first.loss.empty()) first = record;
      CHECK((record == first));
      for (std::size_t step = 0; step < record.loss.size(); ++step) {
        INFO("step " << step + 1 << ": " << record.loss[step] << " and " << reference.loss[step]);
        CHECK(std::abs(record.loss[step] / reference.loss[step] - 1) <= tolerance);
      }
    }
  }
  if (first.loss.empty()) return;
  CHECK(first.loss.back() < 0.8 * first.loss.front());
}

}  // namespace

TEST_CASE("one GPU follows the golden trajectories in fp32", "[gpu][golden]") {
  check_golden_on(1, {{}, {2, 1, 1, 2}, {4, 1, 1, 1, "gpipe"}, {2, 1, 1, 1, "1f1b", 1, Order::ready}});
}

TEST_CASE("evaluations on one GPU have the same bits at every pp, and disturb no training", "[gpu]") {
  for (const std::string name : {"llama3_tiny", "gpt2_tiny"}) {
    std::optional<Evaluation> first;
    std::vector<double> losses;
    for (const Layout& layout :
         {Layout{}, Layout{4}, Layout{2, 1, 1, 1, "zb-v", 2}, Layout{2, 1, 1, 1, "1f1b", 1, Order::ready}}) {
      TrainJob job = golden_job(name, layout);
      if (!on_gpus(job, 1)) return;
      INFO(name << " " << to_string(layout));
      job.evaluation = split_dataset(job.dataset, 0.8, 1).evaluation;
      Trainer trainer(std::move(job));
      std::vector<double> trained{trainer.step().loss};
      const Evaluation evaluation = *trainer.evaluate();
      trained.push_back(trainer.step().loss);
      if (!first) first = evaluation, losses = trained;
      CHECK(evaluation.loss == first->loss);
      CHECK(trained == losses);
    }
    TrainJob job = golden_job(name, {});
    on_gpus(job, 1);
    Trainer undisturbed(std::move(job));
    for (const double loss : losses) CHECK(undisturbed.step().loss == loss);
  }
}

TEST_CASE("tensor- and data-parallel ranks on one GPU follow the golden trajectories in fp32", "[gpu][golden]") {
  check_golden_on(1, {{1, 2, 1, 2}, {1, 1, 2, 1}, {2, 2, 1, 1}});
}

TEST_CASE("two GPUs follow the golden trajectories in fp32", "[gpu][golden]") {
  check_golden_on(2, {{2, 1, 1, 2}, {1, 2, 1, 2}, {1, 1, 2, 2}, {2, 1, 1, 1, "zb-h1"}, {2, 1, 1, 1, "1f1b", 1, Order::ready}});
}

TEST_CASE("eight ranks follow the golden trajectories in fp32 on all GPUs there are", "[gpu][golden]") {
  check_golden_on(std::clamp(cuda_device_count(), 1, 8),
                  {{2, 4, 1, 1}, {2, 4, 1, 2}, {2, 2, 2, 1}, {8, 1, 1, 1, "zb-h1"}, {1, 1, 8, 1}});
}

TEST_CASE("tensor-parallel ranks give the same bits on other GPUs", "[gpu]") {
  for (const int tp : {2, 4}) {
    TrainJob first = golden_job("llama3_tiny", {1, tp}), second = golden_job("llama3_tiny", {1, tp});
    if (!on_gpus(first, tp) || !on_gpus(second, 2 * tp)) return;
    for (int& device : second.devices.gpus) device += tp;
    INFO("tp " << tp);
    CHECK((run(std::move(first), 3) == run(std::move(second), 3)));
  }
}

TEST_CASE("fp32 on GPUs is the same to the bit over pp, schedule, order and rerun", "[gpu]") {
  for (const int gpus : {1, 2}) {
    TrainJob plain = golden_job("llama3_tiny", {});
    if (!on_gpus(plain, gpus)) return;
    const RunRecord first = run(std::move(plain), 3);
    for (const Layout layout : {Layout{}, Layout{2}, Layout{4, 1, 1, 1, "gpipe"}, Layout{2, 1, 1, 1, "zb-h1"},
                                Layout{2, 1, 1, 1, "interleaved", 2}, Layout{2, 1, 1, 1, "1f1b", 1, Order::ready}}) {
      TrainJob job = golden_job("llama3_tiny", layout);
      on_gpus(job, gpus);
      INFO(to_string(layout) << " on " << gpus << " GPUs");
      CHECK((run(std::move(job), 3) == first));
    }
  }
}

TEST_CASE("every cut on GPUs gives the bits of one stage, in fp32 and in deterministic bf16", "[gpu][cut]") {
  for (const Precision& precision : {Precision::fp32(), Precision::bf16()}) {
    TrainJob plain = random_job(half_config(), 128, 8, {1, 1, 1, 2});
    if (!on_gpus(plain, 1, precision)) return;
    const RunRecord whole = run(std::move(plain), 3);
    const auto check = [&](Layout layout, Cut cut) {
      layout.cut = std::move(cut);
      TrainJob job = random_job(half_config(), 128, 8, layout);
      on_gpus(job, 1, precision);
      INFO(numbers_name(precision) << ", " << to_string(layout));
      CHECK((run(std::move(job), 3) == whole));
    };
    check({2, 1, 1, 2}, {7, 1});
    check({2, 1, 1, 2, "zb-h1"}, {2, 6});
    check({2, 1, 1, 2, "zb-v", 2}, {1, 4, 2, 1});
  }
}

TEST_CASE("recomputing on GPUs gives the bits of keeping, in fp32 and in deterministic bf16, fp16 and fp8", "[gpu]") {
  for (const Precision& precision :
       {Precision::fp32(), Precision::bf16(), Precision::fp16(), Precision::fp8(), Precision::fp8_of_blocks()}) {
    const auto job = [&](const Layout& layout) { return random_job(half_config(), 128, 8, layout); };
    for (const int gpus : {1, 2}) {
      for (Layout layout : {Layout{2, 1, 1, 2}, Layout{1, 2, 1, 2}, Layout{2, 1, 1, 2, "zb-h1"}, Layout{2, 2, 1, 2, "zb-h1"}}) {
        TrainJob plain = job(layout);
        if (!computes(precision)) continue;
        if (!on_gpus(plain, gpus, precision)) return;
        const RunRecord kept = run(std::move(plain), 3);
        for (const auto& [mode, layers] : {std::pair(Recompute::selective, 0), {Recompute::full, 0}, {Recompute::full, 1}}) {
          layout.recompute = mode;
          layout.recompute_layers = layers > 0 ? std::optional<std::int64_t>(layers) : std::nullopt;
          TrainJob again = job(layout);
          on_gpus(again, gpus, precision);
          INFO(to_string(layout) << " on " << gpus << " GPUs, " << numbers_name(precision));
          CHECK((run(std::move(again), 3) == kept));
        }
      }
    }
  }
}

TEST_CASE("every stage of ZeRO gives the bits of none on GPUs, in fp32 and in deterministic bf16 and fp8", "[gpu]") {
  for (const Precision& precision : {Precision::fp32(), Precision::bf16(), Precision::fp8(), Precision::fp8_of_blocks()}) {
    for (const int gpus : {1, 2}) {
      for (Layout layout : {Layout{1, 1, 2, 2}, Layout{1, 1, 2, 4}, Layout{2, 1, 2, 1, "zb-h1"}, Layout{1, 2, 2, 1},
                            Layout{1, 1, 2, 1, "looped-bfs", 2}, Layout{1, 1, 3, 2}}) {
        ModelConfig config = half_config();
        config.tied_embeddings = layout.pp == 2;
        const auto job = [&] { return random_job(config, 128, layout.dp == 3 ? 12 : 8, layout); };
        TrainJob plain = job();
        if (!computes(precision)) continue;
        if (!on_gpus(plain, gpus, precision)) return;
        const RunRecord whole = run(std::move(plain), 3);
        for (layout.zero = 1; layout.zero <= most_zero_stages; ++layout.zero) {
          TrainJob divided = job();
          on_gpus(divided, gpus, precision);
          INFO(to_string(layout) << " on " << gpus << " GPUs, " << numbers_name(precision));
          CHECK((run(std::move(divided), 3) == whole));
        }
      }
    }
  }
}

TEST_CASE("bf16, fp16 and fp8 follow fp32, and are the same to the bit over pp when they are deterministic", "[gpu]") {
  ModelConfig config = half_config();
  for (const bool tied : {false, true}) {
    config.tied_embeddings = tied;
    TrainJob exact = gentle_gpu_job(config, {1, 1, 1, 2});
    if (!on_gpus(exact, 1)) return;
    const RunRecord reference = run(std::move(exact), 30);
    for (const Precision& precision : {Precision::bf16(), Precision::fp16(), Precision::fp8(), Precision::fp8_of_blocks()})
      check_follows(config, precision, reference);
  }
}

// Checks thirty steps over two tensor-parallel ranks, as check_follows() does.
void check_follows_over_ranks(const Precision& precision, bool sequence_parallel, const RunRecord& reference) {
  std::optional<RunRecord> first;
  for (const int gpus : {1, 2}) {
    for (Layout layout : {Layout{1, 2, 1, 2}, Layout{2, 2, 1, 2}, Layout{2, 2, 1, 2, "zb-h1"}}) {
      layout.sequence_parallel = sequence_parallel;
      TrainJob job = gentle_gpu_job(half_config(), layout);
      if (!on_gpus(job, gpus, precision)) continue;
      INFO(numbers_name(precision) << ", " << to_string(layout) << " on " << gpus << " GPUs");
      const RunRecord record = run(std::move(job), 30);
      if (!first) first = record;
      CHECK((record == *first));
      for (std::size_t step = 0; step < record.loss.size(); ++step) {
        INFO("step " << step + 1 << ": " << record.loss[step] << " and " << reference.loss[step]);
        CHECK(std::abs(record.loss[step] / reference.loss[step] - 1) <= 0.05);
      }
    }
  }
}

TEST_CASE("fp8 over tensor-parallel ranks follows fp32, and is the same to the bit over pp and GPUs", "[gpu]") {
  if (!needs_gpus(cuda_device_count())) return;
  if (!computes(Precision::fp8())) return skip("this GPU does not multiply in 8 bits");
  TrainJob exact = gentle_gpu_job(half_config(), {1, 1, 1, 2});
  on_gpus(exact, 1);
  const RunRecord reference = run(std::move(exact), 30);
  for (const Precision& precision : {Precision::fp8(), Precision::fp8_of_blocks()})
    for (const bool sequence_parallel : {true, false}) check_follows_over_ranks(precision, sequence_parallel, reference);
}

TEST_CASE("the outer layers of a model in fp8 stay in bf16 if the run asks for it, alike on every layout", "[gpu]") {
  const auto run_with = [](const Layout& layout, const Precision& precision, const Bf16Layers& layers) {
    TrainJob job = random_job(half_config(), 128, 8, layout);
    on_gpus(job, 1, precision);
    job.numerics.bf16_layers = layers;
    return run(std::move(job), 3);
  };
  if (!needs_gpus(cuda_device_count())) return;
  if (!computes(Precision::fp8())) return skip("this GPU does not multiply in 8 bits");
  const Layout one{1, 1, 1, 2};
  const RunRecord all = run_with(one, Precision::fp8(), {}), ends = run_with(one, Precision::fp8(), {1, 2});
  CHECK_FALSE((ends == all));
  CHECK_FALSE((ends == run_with(one, Precision::fp8(), {2, 1})));
  CHECK_FALSE((ends == run_with(one, Precision::bf16(), {})));
  for (const Layout& layout : {Layout{2, 1, 1, 2, "zb-h1"}, Layout{2, 1, 1, 2, "zb-v", 2}})
    CHECK((run_with(layout, Precision::fp8(), {1, 2}) == ends));
}

TEST_CASE("fp16 whose gradients overflow skips these steps, alike on every layout, and then learns", "[gpu]") {
  std::vector<double> scales, losses;
  for (const int gpus : {1, 2}) {
    for (const Layout layout : {Layout{1, 1, 1, 2}, Layout{2, 1, 1, 2, "zb-h1"}}) {
      TrainJob job = random_job(half_config(), 128, 8, layout);
      if (!on_gpus(job, gpus, Precision::fp16())) return;
      job.loss_scale = {.dynamic = true, .initial = 0x1p40, .window = 10, .hysteresis = 1};
      Trainer trainer(std::move(job));
      std::vector<double> scale, loss;
      int skipped = 0;
      for (int step = 0; step < 50; ++step) {
        const StepReport report = trainer.step();
        scale.push_back(report.loss_scale.value());
        loss.push_back(report.loss);
        skipped += report.skipped ? 1 : 0;
      }
      INFO(to_string(layout) << " on " << gpus << " GPUs");
      CHECK(skipped > 5);
      CHECK(skipped < 40);
      CHECK(loss.back() < 0.9 * loss.front());
      if (scales.empty()) scales = scale, losses = loss;
      CHECK(scale == scales);
      CHECK(loss == losses);
    }
  }
}

TEST_CASE("a failure on purpose ends a run on GPUs with its cause named and nothing left running", "[gpu]") {
  struct Case {
    FaultKind kind;
    ErrorKind error;
    std::string part;
  };
  for (const int gpus : {1, 2}) {
    for (const Layout layout : {Layout{2, 1, 2, 1}, Layout{2, 2, 1, 1}}) {
      for (const auto& [kind, error, part] : {Case{FaultKind::raise, ErrorKind::internal, "rank 3 (stage 1, "},
                                              Case{FaultKind::nan, ErrorKind::numeric, "of step 2 is NaN"},
                                              Case{FaultKind::out_of_memory, ErrorKind::out_of_memory, "rank 3 (stage 1, "},
                                              Case{FaultKind::hang, ErrorKind::peer_lost, "no action completed"}}) {
        TrainJob job = golden_job("llama2_tiny", layout);
        if (!on_gpus(job, gpus)) return;
        job.fault = Fault{3, 2, kind};
        job.stall = std::chrono::milliseconds(1000);
        Trainer trainer(std::move(job));
        trainer.step();
        INFO(to_string(layout) << " on " << gpus << " GPUs, " << part);
        try {
          trainer.step();
          FAIL("the step ended");
        } catch (const RunFailed& failure) {
          INFO(failure.what());
          CHECK(failure.kind() == error);
          CHECK(failure.everything_stopped());
          CHECK(std::string(failure.what()).find(part) != std::string::npos);
        }
      }
    }
  }
}

TEST_CASE("a run that needs more than a GPU has says so before it allocates", "[gpu]") {
  TrainJob job = random_job(preset_config("llama2-7b"), 4096, 16, {1, 1, 1, 16});
  if (!on_gpus(job, 1, Precision::bf16())) return;
  try {
    Trainer trainer(std::move(job));
    FAIL("it was built");
  } catch (const Error& error) {
    INFO(error.what());
    CHECK(error.kind() == ErrorKind::out_of_memory);
    CHECK(std::string(error.what()).find("cuda:0: the run needs about ") != std::string::npos);
  }
}

TEST_CASE("the trace of a run on GPUs has device times within its steps, in an order that the data allows", "[gpu]") {
  for (const int gpus : {1, 2}) {
    TrainJob job = golden_job("llama2_tiny", Layout{2});
    if (!on_gpus(job, gpus)) return;
    INFO(gpus << " GPUs");
    Trainer trainer(std::move(job));
    for (int step = 0; step < 3; ++step) {
      using Clock = std::chrono::steady_clock;
      const auto slack = std::chrono::microseconds(200);  // the accuracy to which the clocks are compared
      const auto before = Clock::now();
      const StepReport report = trainer.step();
      const auto after = Clock::now();
      CHECK(report.bubble > 0);
      CHECK(report.bubble < 1);
      std::vector<std::map<int, ActionTimes>> forwards(2);
      for (const auto& [id, actions] : report.trace) {
        auto free = before;
        for (const auto& [action, ran] : actions) {
          CHECK(ran.start >= free - slack);
          CHECK(ran.end > ran.start);
          CHECK(ran.end <= after + slack);
          free = ran.end;
          if (action.kind == schedules::ActionKind::forward)
            forwards[static_cast<std::size_t>(id.stage)][action.microbatch] = ran;
        }
      }
      REQUIRE(!forwards[1].empty());
      for (const auto& [microbatch, ran] : forwards[1]) CHECK(ran.start >= forwards[0].at(microbatch).end - slack);
    }
  }
}
