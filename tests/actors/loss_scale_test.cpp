#include <cmath>

#include "actors/training/checkpoint/checkpoint.hpp"
#include "actors/training/checkpoint/checkpoint_folder.hpp"
#include "actors/training/run/trainer.hpp"
#include "catch.hpp"
#include "golden_run.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using namespace pipetrain::test;

namespace {

// Overflows fp32 at first: gradients are 2^140 / tokens times what they should be, and each overflow halves that.
constexpr LossScaleSettings falling{.dynamic = true, .initial = 0x1p140, .window = 3, .hysteresis = 1};

struct Step {
  double loss, grad_norm, scale, rate;
  std::int64_t applied;  // steps so far
  bool skipped;
  bool operator==(const Step& other) const {  // a norm that overflowed may be NaN
    return loss == other.loss && scale == other.scale && rate == other.rate && applied == other.applied &&
           skipped == other.skipped && (skipped || grad_norm == other.grad_norm);
  }
};

TrainJob overflowing_job(const Layout& layout) {
  TrainJob job = golden_job("llama3_tiny", layout);
  job.loss_scale = falling;
  job.learning_rate = {.kind = LearningRate::Kind::linear, .peak = 1e-3, .warmup_steps = 5, .total_steps = 24};
  return job;
}

std::vector<Step> scaled_steps(Trainer& trainer, int count) {
  std::vector<Step> steps;
  for (int i = 0; i < count; ++i) {
    const StepReport report = trainer.step();
    steps.push_back({report.loss, report.grad_norm, report.loss_scale.value_or(0), report.learning_rate, report.applied_steps,
                     report.skipped});
  }
  return steps;
}

}  // namespace

TEST_CASE("a static loss scale that is a power of two changes no bit") {
  for (const Layout& layout : {Layout{}, Layout{2, 2, 1, 2, "zb-h1"}, Layout{1, 1, 2, 2}}) {
    INFO(to_string(layout));
    TrainJob job = golden_job("llama3_tiny", layout);
    const RunRecord plain = run(job, 4);
    job.loss_scale.initial = 4096;
    CHECK((run(job, 4) == plain));
  }
}

TEST_CASE("a step whose gradients overflow is skipped by every rank, and a dynamic loss scale halves until they do not") {
  Trainer trainer(overflowing_job({1, 1, 1, 2}));
  const std::vector<Step> steps = scaled_steps(trainer, 24);

  const auto fitting = std::find_if(steps.begin(), steps.end(), [](const Step& step) { return !step.skipped; });
  REQUIRE(fitting != steps.begin());
  REQUIRE(fitting != steps.end());
  for (auto step = steps.begin(); step != fitting; ++step) {
    CHECK_FALSE(std::isfinite(step->grad_norm));
    CHECK((step + 1)->scale == step->scale / 2);
  }
  for (auto step = fitting; step != steps.end(); ++step) CHECK(std::isfinite(step->grad_norm) == !step->skipped);
  // The scale grows into the overflow again, and falls again.
  CHECK(std::any_of(fitting, steps.end(), [](const Step& step) { return step.skipped; }));
  for (const Layout& layout : {Layout{2, 1, 1, 2, "zb-v", 2}, Layout{4, 1, 1, 2, "gpipe"}}) {
    INFO(to_string(layout));
    Trainer again(overflowing_job(layout));
    CHECK(scaled_steps(again, 24) == steps);
  }
}

TEST_CASE("the learning rate counts the steps that are applied: one that is skipped neither warms up nor decays") {
  for (const bool post_validation : {false, true}) {
    TrainJob job = overflowing_job({2, 1, 1, 2, "zb-h2"});
    job.post_validation = post_validation;
    const LearningRate schedule = job.learning_rate;
    Trainer trainer(std::move(job));
    std::int64_t applied = 0, skipped = 0;
    for (int step = 1; step <= 24; ++step) {
      const StepReport report = trainer.step(step < 24);
      CHECK(report.learning_rate == schedule.at(applied + 1));
      report.skipped ? ++skipped : ++applied;
      CHECK(report.applied_steps == applied);
    }
    CHECK(skipped > 3);
    CHECK(applied > 6);  // beyond the warm-up
  }
}

TEST_CASE("a resumed run keeps its loss scale and its learning rate") {
  const TempFolder folder;
  TrainJob job = overflowing_job({});
  Trainer whole(job);
  const std::vector<Step> steps = scaled_steps(whole, 20);
  Trainer first(job);
  scaled_steps(first, 14);
  first.start_checkpoint(folder.path()).get();
  const auto checkpoint = checkpoint_path(folder.path(), 14);
  const CheckpointManifest manifest = verify_checkpoint(checkpoint);
  job.initial = open_checkpoint(checkpoint, manifest, job.config);
  job.steps_done = manifest.state.step;
  Trainer rest(job);
  CHECK(scaled_steps(rest, 6) == std::vector<Step>(steps.begin() + 14, steps.end()));
}

TEST_CASE("an overflow at the smallest loss scale ends the run with a line that says so") {
  TrainJob job = golden_job("llama3_tiny", {2, 1, 1, 1});
  job.loss_scale = falling;
  job.loss_scale.minimum = 0x1p139;
  Trainer trainer(job);
  CHECK(trainer.step().skipped);
  CHECK_THROWS_WITH(trainer.step(), Catch::Contains("of step 2 overflow at the smallest loss scale"));
}
