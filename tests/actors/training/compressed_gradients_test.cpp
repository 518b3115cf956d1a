// Runs whose replicas sum their gradients in few bits: the same bits over stages, schedules and reruns, also from a checkpoint;
// losses near those of fp32.
#include <cmath>

#include "actors/golden_run.hpp"
#include "actors/several_blocks.hpp"
#include "actors/training/compressed_cases.hpp"
#include "actors/training/run/job_memory.hpp"
#include "actors/training/saved_run.hpp"
#include "catch.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
namespace fs = std::filesystem;

namespace {

TrainJob compressed_job(const Layout& layout, BlockCode code, bool tied = false) {
  return with_compressed_gradients(random_job(several_blocks_config(tied), 16, 12, layout), code);
}

TrainJob plain_job(const Layout& layout, BlockCode code) {
  TrainJob job = compressed_job(layout, code);
  job.compression = {};
  return job;
}

}  // namespace

TEST_CASE("compressed gradients give the same bits over stages and schedules, with ZeRO 1 and without", "[compress]") {
  for (const bool tied : {false, true}) {
    for (const auto& [code, zero, steps] : compressed_cases) {
      const RunRecord expected = run(compressed_job(with_zero({1, 1, 2, 1}, zero), code, tied), steps);
      CHECK(expected.loss.back() < expected.loss.front());
      for (const Layout& layout : {Layout{1, 1, 2, 1}, Layout{2, 1, 2, 1, "zb-v", 2}, Layout{4, 1, 2, 1, "zb-h1"}}) {
        INFO(to_string(layout) << ", " << name_of(code) << ", zero " << zero << (tied ? ", tied" : ""));
        CHECK((run(compressed_job(with_zero(layout, zero), code, tied), steps) == expected));
      }
    }
  }
}

TEST_CASE("gradients in 1 bit begin when the second moments have settled, after the learning rate has warmed up",
          "[compress]") {
  for (const std::int64_t warm_up : {0, 6}) {
    TrainJob job = compressed_job({1, 1, 2, 1}, BlockCode::sign);
    job.learning_rate.warmup_steps = warm_up;
    Trainer trainer(job);
    std::int64_t first = 0;  // step in 1 bit
    for (std::int64_t step = 1; step <= 16 && first == 0; ++step)
      if (trainer.step().frozen_after > 0) first = step;
    INFO("warm-up " << warm_up << ", first step in 1 bit " << first);
    CHECK(first > warm_up);
    CHECK(first % 2 == 1);
  }
}

TEST_CASE("replicas exchange gradients in int8 until they exchange first moments in 1 bit", "[compress]") {
  const auto record = [](BlockCode code) {
    TrainJob job = compressed_job({1, 1, 4, 1}, BlockCode::sign, true);
    job.learning_rate.warmup_steps = 2;  // the moments change in any case
    job.compression = {.gradients = code, .hosts = 2};
    return run(job, 2);
  };
  CHECK((record(BlockCode::sign) == record(BlockCode::int8)));
}

TEST_CASE("compressed gradients stay near those of fp32, and are others", "[compress]") {
  const std::pair<Layout, BlockCode> runs[] = {{{1, 1, 2, 1}, BlockCode::int8},
                                               {{1, 2, 2, 1}, BlockCode::int8},
                                               {with_zero({1, 1, 2, 1}, 1), BlockCode::int8},
                                               {{1, 1, 2, 1}, BlockCode::sign},
                                               {{1, 2, 2, 1}, BlockCode::sign}};
  for (const auto& [layout, code] : runs) {
    const RunRecord expected = run(plain_job(layout, code), 20), compressed = run(compressed_job(layout, code), 20);
    INFO(to_string(layout) << ", " << name_of(code));
    CHECK((compressed.weights != expected.weights));
    if (code == BlockCode::sign) {
      // Gradients of a few samples are alike from step to step, and AdamW takes longer steps for these than for noise, which
      // frozen second moments assume.
      CHECK(compressed.loss.back() < 1.15 * expected.loss.back());
      CHECK(compressed.loss.back() < 0.9 * compressed.loss.front());
      continue;
    }
    for (std::size_t step = 0; step < expected.loss.size(); ++step)
      CHECK(compressed.loss[step] == Approx(expected.loss[step]).epsilon(0.01));
  }
}

TEST_CASE("a run with compressed gradients resumes from a checkpoint to the bit, on other stages too", "[compress]") {
  for (const auto& [code, zero, steps] : compressed_cases) {
    const RunRecord whole = run(compressed_job(with_zero({1, 1, 2, 1}, zero), code, true), steps + 1);
    const TempFolder folder;
    Trainer first(compressed_job(with_zero({2, 1, 2, 1}, zero), code, true));
    for (int step = 1; step < steps; ++step) first.step();
    // Its copies are taken while the next step, which changes the errors, runs.
    auto saved = first.start_checkpoint(folder.path());
    first.step();
    saved.get();
    for (const Layout& layout : {Layout{1, 1, 2, 1}, Layout{4, 1, 2, 1, "zb-h1"}}) {
      INFO(to_string(layout) << ", " << name_of(code) << ", zero " << zero);
      const TrainJob job =
          continued_job(checkpoint_path(folder.path(), steps - 1), compressed_job(with_zero(layout, zero), code, true));
      CHECK((run(job, 2).weights == whole.weights));
    }
  }
}

TEST_CASE("gradients that are compressed between hosts alone have the same bits over stages, schedules and a resume",
          "[compress]") {
  for (const auto& [code, steps] : {std::pair(BlockCode::int8, 3), std::pair(BlockCode::sign, 14)}) {
    const auto job = [code = code](Layout layout) {
      layout.dp = 4;
      TrainJob own = compressed_job(layout, code, true);
      own.compression.hosts = 2;
      return own;
    };
    const RunRecord expected = run(job({1, 1, 4, 1}), steps);
    CHECK(expected.loss.back() < expected.loss.front());
    TrainJob flat = job({1, 1, 4, 1});
    flat.compression.hosts = 0;
    CHECK((run(flat, steps).weights != expected.weights));
    flat.compression.hosts = 4;  // one replica on each
    CHECK((run(flat, steps) == run(compressed_job({1, 1, 4, 1}, code, true), steps)));
    for (const Layout& layout : {Layout{2, 1, 4, 1, "zb-v", 2}, Layout{4, 1, 4, 1, "zb-h1"}})
      CHECK((run(job(layout), steps) == expected));
    const TempFolder folder;
    Trainer first(job({2, 1, 4, 1}));
    for (int step = 1; step < steps; ++step) first.step();
    first.start_checkpoint(folder.path()).get();
    const TrainJob continued = continued_job(checkpoint_path(folder.path(), steps - 1), job({1, 1, 4, 1}));
    CHECK((run(continued, 1).weights == expected.weights));
  }
}

TEST_CASE("replicas on several hosts keep errors of their shares alone, and are as many on each", "[compress]") {
  TrainJob job = compressed_job({1, 1, 4, 1}, BlockCode::int8);
  const auto gradients = [](const TrainJob& of) { return estimate_job(of).devices.front().use.gradients; };
  const std::size_t flat = gradients(job);
  job.compression.hosts = 2;
  CHECK(gradients(job) < flat);
  CHECK(compression_text(job) == "int8 over 4 replicas on 2 hosts, zero 0");
  job.compression.hosts = 3;
  CHECK_THROWS_WITH(estimate_job(job), Catch::Matchers::Contains("cannot be as many on each host"));
  job.compression = {.hosts = 2};
  CHECK_THROWS_WITH(estimate_job(job), Catch::Matchers::Contains("give compress-gradients too"));
}

TEST_CASE("the errors of compressed gradients count as memory of gradients", "[compress]") {
  const auto gradients = [](const TrainJob& job) { return estimate_job(job).devices.front().use.gradients; };
  const Layout layout{1, 1, 2, 1};
  const BlockCode int8 = BlockCode::int8;
  CHECK(gradients(compressed_job(layout, int8)) > gradients(compressed_job(with_zero(layout, 1), int8)));
  CHECK(gradients(compressed_job(with_zero(layout, 1), int8)) > 2 * gradients(plain_job(layout, int8)) * 9 / 10);
}
