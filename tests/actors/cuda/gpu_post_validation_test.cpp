// Steps on GPUs that begin before the verdict on the previous step give the bits of steps that wait for it. Stages
// share a GPU if there are too few.
#include "actors/cuda/gpu_job.hpp"
#include "actors/early_steps.hpp"
#include "catch.hpp"
#include "model/config/mode_names.hpp"
#include "schedules/builders/builders.hpp"

using namespace pipetrain;
using namespace pipetrain::test;

TEST_CASE("post-validation on GPUs gives the bits of steps that wait, whether every, no or some step is clipped",
          "[gpu][post-validation]") {
  constexpr int count = 6;
  const std::vector<std::pair<Precision, Layout>> cases{
      {Precision::bf16(), {}},
      {Precision::bf16(), {2}},
      {Precision::bf16(), {4, 1, 1, 1, "zb-h2"}},
      {Precision::bf16(), {2, 1, 1, 1, "zb-v", 2}},
      {Precision::bf16(), {2, 1, 2, 1}},
      {Precision::bf16(), {2, 2, 1, 1}},
      {Precision::fp32(), {2, 1, 1, 1, "zb-h1"}},
      {Precision::fp16(), {2, 1, 1, 1, "interleaved", 2}},
  };
  int redone = 0, kept = 0;
  for (const int gpus : {1, 2}) {
    for (const auto& [precision, layout] : cases) {
      TrainJob job = random_job(half_config(), 128, 6 * layout.dp, layout);
      if (!on_gpus(job, gpus, precision)) continue;
      if (precision == Precision::fp16()) job.loss_scale = {.dynamic = true, .initial = 1024};
      const double some = some_clip(job, count);
      for (const double clip : {0.0, 1e-3, some}) {
        job.clip_norm = clip;
        INFO(numbers_name(precision) << ", " << to_string(layout) << " on " << gpus << " GPUs, clip " << clip);
        const Steps early = steps_of(job, true, count);
        CHECK(early.same_bits(steps_of(job, false, count)));
        CHECK((clip != 0.0 || early.redone == 0));
        CHECK((clip != 1e-3 || early.redone == early.previewed));
        redone += early.redone;
        kept += early.previewed - early.redone;
      }
    }
  }
  if (cuda_device_count() == 0) return;
  INFO(redone << " steps redone, " << kept << " kept");
  CHECK(redone > 5);
  CHECK(kept > 5);
}

TEST_CASE("post-validation on a GPU takes back actions that began after a skipped step", "[gpu][post-validation]") {
  for (const int stages : {1, 2, 4}) {
    TrainJob job = random_job(half_config(), 128, 8, {stages, 1, 1, 2, stages == 1 ? "1f1b" : "zb-h2"});
    if (!on_gpus(job, 1, Precision::fp16())) return;
    job.loss_scale = {.dynamic = true, .initial = 0x1p34, .window = 4, .hysteresis = 1};
    const Steps early = steps_of(job, true, 20);
    CHECK(early.same_bits(steps_of(job, false, 20)));
    CHECK(std::get<bool>(early.reports.front()));
    CHECK_FALSE(std::get<bool>(early.reports.back()));
  }
}
