// Runs whose replicas gather the weights that they divide in few bits.
#include "actors/golden_run.hpp"
#include "actors/several_blocks.hpp"
#include "actors/training/checkpoint/checkpoint.hpp"
#include "actors/training/checkpoint/checkpoint_folder.hpp"
#include "actors/training/run/job_memory.hpp"
#include "catch.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using namespace pipetrain::test;

namespace {

struct GatherCase {
  int zero;
  Precision precision;
};

TrainJob gathering_job(Layout layout, const GatherCase& of, BlockCode code = BlockCode::int8) {
  layout.zero = of.zero;
  TrainJob job = random_job(several_blocks_config(true), 16, 12, layout);
  job.numerics.precision = of.precision;
  job.compression.weights = code;
  job.learning_rate.peak = 1e-3;
  return job;
}

}  // namespace

TEST_CASE("weights that replicas gather in 8 bits are the same on every stage of ZeRO and on other stages of the pipeline",
          "[compress]") {
  const RunRecord bf16 = run(gathering_job({1, 1, 2, 1}, {1, Precision::bf16()}), 4);
  const RunRecord fp32 = run(gathering_job({1, 1, 2, 1}, {3, Precision::fp32()}), 4);
  const GatherCase cases[] = {{1, Precision::bf16()}, {2, Precision::bf16()}, {3, Precision::bf16()}, {3, Precision::fp32()}};
  for (const GatherCase& of : cases) {
    for (const Layout& layout : {Layout{2, 1, 2, 1, "zb-v", 2}, Layout{4, 1, 2, 1}}) {
      INFO(to_string(layout) << ", zero " << of.zero);
      CHECK((run(gathering_job(layout, of), 4) == (of.precision.rounds_weights() ? bf16 : fp32)));
    }
  }
}

TEST_CASE("weights gathered in 8 bits train nearly as those in full, and resume to the bit", "[compress]") {
  const GatherCase of{3, Precision::fp32()};
  const RunRecord full = run(gathering_job({1, 1, 2, 1}, of, BlockCode::none), 6);
  const RunRecord whole = run(gathering_job({1, 1, 2, 1}, of), 6);
  CHECK((whole.weights != full.weights));
  for (std::size_t step = 0; step < full.loss.size(); ++step) CHECK(whole.loss[step] == Approx(full.loss[step]).epsilon(0.01));
  const TempFolder folder;
  Trainer first(gathering_job({2, 1, 2, 1}, of));
  for (int step = 0; step < 4; ++step) first.step();
  first.start_checkpoint(folder.path()).get();
  const auto checkpoint = checkpoint_path(folder.path(), 4);
  TrainJob job = gathering_job({1, 1, 2, 1}, of);
  const CheckpointManifest manifest = verify_checkpoint(checkpoint);
  job.initial = open_checkpoint(checkpoint, manifest, job.config);
  job.steps_done = manifest.state.step;
  CHECK((run(job, 2).weights == whole.weights));
}

TEST_CASE("the buffer of weights in few bits counts as memory of parameters", "[compress]") {
  const auto parameters = [](BlockCode code) {
    return estimate_job(gathering_job({1, 1, 2, 1}, {3, Precision::fp32()}, code)).devices.front().use.parameters;
  };
  CHECK(parameters(BlockCode::int8) > parameters(BlockCode::none));
}
