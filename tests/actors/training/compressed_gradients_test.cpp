// Runs whose replicas sum their gradients in few bits: the same bits over stages, schedules and reruns, also from a checkpoint;
// losses near those of fp32.
#include <cmath>

#include "actors/golden_run.hpp"
#include "actors/several_blocks.hpp"
#include "actors/training/checkpoint/checkpoint.hpp"
#include "actors/training/checkpoint/checkpoint_folder.hpp"
#include "actors/training/run/job_memory.hpp"
#include "catch.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
namespace fs = std::filesystem;

namespace {

TrainJob compressed_job(const Layout& layout, bool tied = false) {
  TrainJob job = random_job(several_blocks_config(tied), 16, 12, layout);
  job.compression.gradients = BlockCode::int8;
  job.learning_rate.peak = 1e-3;
  return job;
}

TrainJob plain_job(const Layout& layout) {
  TrainJob job = compressed_job(layout);
  job.compression = {};
  return job;
}

TrainJob continued_job(const fs::path& checkpoint, TrainJob job) {
  const CheckpointManifest manifest = verify_checkpoint(checkpoint);
  job.initial = open_checkpoint(checkpoint, manifest, job.config);
  job.steps_done = manifest.state.step;
  job.first_loss = manifest.state.first_loss;
  job.last_loss = manifest.state.last_loss;
  return job;
}

Layout with_zero(Layout layout, int zero) {
  layout.zero = zero;
  return layout;
}

}  // namespace

TEST_CASE("compressed gradients give the same bits over stages and schedules, with ZeRO 1 and without", "[compress]") {
  for (const bool tied : {false, true}) {
    for (const int zero : {0, 1}) {
      const RunRecord expected = run(compressed_job(with_zero({1, 1, 2, 1}, zero), tied), 4);
      CHECK(expected.loss.back() < expected.loss.front());
      for (const Layout& layout : {Layout{1, 1, 2, 1}, Layout{2, 1, 2, 1, "zb-v", 2}, Layout{4, 1, 2, 1, "zb-h1"}}) {
        INFO(to_string(layout) << ", zero " << zero << (tied ? ", tied" : ""));
        CHECK((run(compressed_job(with_zero(layout, zero), tied), 4) == expected));
      }
    }
  }
}

TEST_CASE("compressed gradients stay near those of fp32, and are others", "[compress]") {
  for (const Layout& layout : {Layout{1, 1, 2, 1}, Layout{1, 2, 2, 1}, with_zero({1, 1, 2, 1}, 1)}) {
    const RunRecord expected = run(plain_job(layout), 20), compressed = run(compressed_job(layout), 20);
    INFO(to_string(layout));
    CHECK((compressed.weights != expected.weights));
    for (std::size_t step = 0; step < expected.loss.size(); ++step)
      CHECK(compressed.loss[step] == Approx(expected.loss[step]).epsilon(0.01));
  }
}

TEST_CASE("a run with compressed gradients resumes from a checkpoint to the bit, on other stages too", "[compress]") {
  for (const int zero : {0, 1}) {
    const RunRecord whole = run(compressed_job(with_zero({1, 1, 2, 1}, zero), true), 5);
    const TempFolder folder;
    Trainer first(compressed_job(with_zero({2, 1, 2, 1}, zero), true));
    for (int step = 0; step < 3; ++step) first.step();
    // Its copies are taken while the next step, which changes the errors, runs.
    auto saved = first.start_checkpoint(folder.path());
    first.step();
    saved.get();
    for (const Layout& layout : {Layout{1, 1, 2, 1}, Layout{4, 1, 2, 1, "zb-h1"}}) {
      INFO(to_string(layout) << ", zero " << zero);
      const TrainJob job = continued_job(checkpoint_path(folder.path(), 3), compressed_job(with_zero(layout, zero), true));
      CHECK((run(job, 2).weights == whole.weights));
    }
  }
}

TEST_CASE("the errors of compressed gradients count as memory of gradients", "[compress]") {
  const auto gradients = [](const TrainJob& job) { return estimate_job(job).devices.front().use.gradients; };
  const Layout layout{1, 1, 2, 1};
  CHECK(gradients(compressed_job(layout)) > gradients(compressed_job(with_zero(layout, 1))));
  CHECK(gradients(compressed_job(with_zero(layout, 1))) > 2 * gradients(plain_job(layout)) * 9 / 10);
}
