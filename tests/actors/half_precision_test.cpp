// Whole runs in bf16 and fp16 on the CPU are close to those in fp32, and have the same bits on every layout.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "actors/training/checkpoint/checkpoint.hpp"
#include "actors/training/checkpoint/checkpoint_folder.hpp"
#include "actors/training/run/job_memory.hpp"
#include "catch.hpp"
#include "golden_run.hpp"
#include "model/config/mode_names.hpp"
#include "schedules/builders/builders.hpp"
#include "temp_folder.hpp"
#include "tiny_run.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
using schedules::Order;

namespace {

TrainJob in_precision(TrainJob job, const Precision& precision) {
  job.numerics.precision = precision;
  if (precision == Precision::fp16()) job.loss_scale = {.dynamic = true, .initial = 65536};
  return job;
}

// A rate that rises over ten steps: at the full rate Adam's first updates change every weight by it, whatever the
// gradient's size, so that a rounding that changes a sign changes the loss by several per cent.
TrainJob gentle_half_job(const std::string& name, const Layout& layout, const Precision& precision) {
  TrainJob job = in_precision(golden_job(name, layout), precision);
  job.learning_rate.warmup_steps = 10;
  return job;
}

TrainJob half_job_from(const std::filesystem::path& checkpoint, TrainJob job) {
  const CheckpointManifest manifest = verify_checkpoint(checkpoint);
  job.initial = open_checkpoint(checkpoint, manifest, job.config);
  job.steps_done = manifest.state.step;
  return job;
}

}  // namespace

TEST_CASE("bf16 and fp16 on the CPU follow fp32 within 1 %, and are the same to the bit over pp, schedule, order and threads",
          "[half]") {
  constexpr int steps = 16;
  for (const std::string name : {"llama3_tiny", "gpt2_tiny"}) {
    const RunRecord exact = run(gentle_half_job(name, {1, 1, 1, 2}, Precision::fp32()), steps);
    for (const Precision& precision : {Precision::bf16(), Precision::fp16()}) {
      RunRecord first;
      for (Layout layout : {Layout{1, 1, 1, 2}, Layout{4, 1, 1, 2, "zb-h1"}, Layout{2, 1, 1, 2, "1f1b", 1, Order::ready}}) {
        layout.threads = layout.pp;
        INFO(name << " in " << precision_name(precision) << ", " << to_string(layout));
        const RunRecord record = run(gentle_half_job(name, layout, precision), steps);
        if (first.loss.empty()) first = record;
        CHECK((record == first));
      }
      for (std::size_t step = 0; step < first.loss.size(); ++step) {
        INFO(name << " in " << precision_name(precision) << ", step " << step + 1 << ": " << first.loss[step] << " and "
                  << exact.loss[step]);
        CHECK(std::abs(first.loss[step] / exact.loss[step] - 1) <= 0.01);
        CHECK(std::abs(first.grad_norm[step] / exact.grad_norm[step] - 1) <= 0.1);
      }
      CHECK(first.loss != exact.loss);
    }
  }
}

TEST_CASE("every schedule, order, way to recompute and stage of ZeRO gives the bits of one stage in bf16 and fp16", "[half]") {
  for (const int precision : {1, 2}) {
    for (const Family family : {Family::llama, Family::gpt2}) {
      TinyRun tiny{.family = family, .tied = true, .dropout = 0.2, .precision = precision, .layout = {1, 1, 2}};
      const RunRecord reference = run(tiny);
      int number = 0;
      for (const auto& schedule : schedules::all_schedules()) {
        tiny.layout = {2, 1, 2, 1, std::string(schedule.name), schedule.default_chunks};
        tiny.layout.order = schedule.has_ready_rule && number % 2 == 0 ? Order::ready : Order::planned;
        tiny.layout.recompute = static_cast<Recompute>(number % 3);
        tiny.layout.zero = number % (tiny.layout.order == Order::ready ? 3 : 4);
        ++number;
        INFO(to_string(tiny));
        CHECK((run(tiny) == reference));
      }
    }
  }
}

TEST_CASE("optimizer states and activations on a disk give the bits of those in memory in bf16 and fp16", "[half]") {
  for (const Precision& precision : {Precision::bf16(), Precision::fp16()}) {
    Layout layout{2, 1, 1, 1, "gpipe"};
    const RunRecord expected = run(in_precision(golden_job("llama3_tiny", layout), precision), 3);
    layout.offload = true;
    layout.activations = 1;
    INFO(precision_name(precision));
    CHECK((run(in_precision(golden_job("llama3_tiny", layout), precision), 3) == expected));
  }
}

TEST_CASE("a run in bf16 or fp16 resumes from a checkpoint to the bit, and any precision resumes from its checkpoint",
          "[half]") {
  const Layout layout{2, 1, 1, 2};
  for (const Precision& precision : {Precision::bf16(), Precision::fp16()}) {
    const TempFolder folder;
    const RunRecord whole = run(in_precision(golden_job("llama3_tiny", layout), precision), 6);
    {
      Trainer first(in_precision(golden_job("llama3_tiny", layout), precision));
      for (int step = 0; step < 4; ++step) first.step();
      first.start_checkpoint(folder.path()).get();
    }
    const auto checkpoint = checkpoint_path(folder.path(), 4);
    for (const Precision& next : {Precision::fp32(), Precision::bf16(), Precision::fp16()}) {
      INFO("from " << precision_name(precision) << " to " << precision_name(next));
      const auto here = golden_job("llama3_tiny", {1, 1, 1, 2});
      const RunRecord rest = run(half_job_from(checkpoint, in_precision(here, next)), 2);
      CHECK(rest.loss[0] == Approx(whole.loss[4]).epsilon(0.01));
      if (!(next == precision)) continue;
      CHECK(rest.loss == std::vector<double>(whole.loss.begin() + 4, whole.loss.end()));
      CHECK(rest.grad_norm == std::vector<double>(whole.grad_norm.begin() + 4, whole.grad_norm.end()));
      CHECK((rest.weights == whole.weights));
    }
  }
}

TEST_CASE("fp16 on the CPU whose gradients overflow skips these steps, alike on every layout", "[half]") {
  struct Layouts {
    Layout one, other;
  };
  for (const auto& [one, other] : {Layouts{{1, 1, 1, 2}, {2, 1, 1, 2, "zb-h1"}}, Layouts{{1, 1, 2, 1}, {3, 1, 2, 1}}}) {
    const auto steps_of = [](const Layout& layout) {
      TrainJob job = golden_job("llama3_tiny", layout);
      job.numerics.precision = Precision::fp16();
      job.loss_scale = {.dynamic = true, .initial = 0x1p26, .window = 6, .hysteresis = 1};
      Trainer trainer(std::move(job));
      std::vector<std::tuple<double, double, bool>> steps;
      for (int step = 0; step < 16; ++step) {
        const StepReport report = trainer.step();
        steps.emplace_back(report.loss, report.loss_scale.value(), report.skipped);
      }
      return steps;
    };
    const auto steps = steps_of(one);
    const auto skipped = std::count_if(steps.begin(), steps.end(), [](const auto& step) { return std::get<bool>(step); });
    INFO(to_string(other) << ", " << skipped << " steps skipped");
    CHECK(std::get<bool>(steps.front()));
    CHECK(skipped > 3);
    CHECK(skipped < 14);
    CHECK(steps_of(other) == steps);
  }
}

TEST_CASE("a run in bf16 takes the memory that is estimated, and half of fp32's for activations", "[half]") {
  const auto bytes = [](const Precision& precision) {
    const TrainJob job = in_precision(golden_job("llama3_tiny", {2, 1, 1, 2}), precision);
    std::size_t estimated = 0, taken = 0, activations = 0;
    for (const auto& device : estimate_job(job).devices) {
      estimated += device.use.total();
      activations += device.use.activations;
    }
    for (const auto& device : Trainer(job).memory()) taken += device.use.total();
    CHECK(taken == estimated);
    return static_cast<double>(activations);
  };
  const double fp32 = bytes(Precision::fp32());
  for (const Precision& precision : {Precision::bf16(), Precision::fp16()}) {
    const double half = bytes(precision);
    CHECK(half < 0.6 * fp32);
    CHECK(half >= 0.5 * fp32);
  }
}
