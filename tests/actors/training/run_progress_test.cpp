// The progress of a run, as another process continues from it.
#include "actors/training/run/run_progress.hpp"

#include "actors/tiny_run.hpp"
#include "actors/training/run/trainer.hpp"
#include "catch.hpp"
#include "core/error.hpp"

using namespace pipetrain;

namespace {

RunProgress three_steps() {
  RunProgress progress(test::job_of({}));
  for (int step = 1; step <= 3; ++step) {
    StepReport report;
    report.step = step;
    report.loss = 5.0 - step;
    report.tokens = step == 1 ? 0 : 8;
    report.skipped = step == 1;
    progress.add(report, {LossScaleState{256, step, 1}, VarianceState{0.5, 0.25, 7, 40, 0.75}, {{0.5F, -0.25F}, {1.0F}}});
  }
  return progress;
}

}  // namespace

TEST_CASE("another process continues from the record of a run's progress", "[takeover]") {
  const RunProgress progress = three_steps();
  const RunProgress other(progress.record());
  CHECK(other.now().steps == 3);
  CHECK(other.now().applied_steps == 2);
  CHECK(other.now().has_first_loss);
  CHECK(other.now().first_loss == 3.0);
  CHECK(other.now().last_loss == 2.0);
  CHECK(other.now().coming.loss_scale == LossScaleState{256, 3, 1});
  CHECK(other.now().coming.variance == VarianceState{0.5, 0.25, 7, 40, 0.75});
  CHECK(other.now().coming.expert_biases == progress.now().coming.expert_biases);
  CHECK(other.record() == progress.record());
}

TEST_CASE("a record of progress that was cut off is refused", "[takeover]") {
  const Bytes record = three_steps().record();
  for (std::size_t length = 0; length < record.size(); ++length)
    CHECK_THROWS_AS(RunProgress(Bytes(record.begin(), record.begin() + static_cast<std::ptrdiff_t>(length))), Error);
}
