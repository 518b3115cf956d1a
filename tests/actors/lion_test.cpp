// Runs under Lion, whose single state is handled like AdamW's two: it is sharded, offloaded and saved in checkpoints.
#include "actors/training/checkpoint/resume.hpp"
#include "actors/training/run/job_memory.hpp"
#include "actors/training/saved_run.hpp"
#include "catch.hpp"
#include "early_steps.hpp"
#include "golden_run.hpp"
#include "model/optimizer/optimizer.hpp"
#include "several_blocks.hpp"
#include "temp_folder.hpp"
#include "tiny_run.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

TrainJob lion_job(const Layout& layout) {
  TrainJob job = random_job(several_blocks_config(), 16, 12, layout);
  job.optimizer = default_settings("lion");
  job.learning_rate.peak = 5e-4;
  return job;
}

}  // namespace

TEST_CASE("Lion gives the same bits over stages, schedules, ZeRO and states that are offloaded") {
  const RunRecord expected = run(lion_job({1, 1, 2, 1}), 4);
  CHECK(expected.loss.back() < expected.loss.front());
  TrainJob adamw = lion_job({1, 1, 2, 1});
  adamw.optimizer = {};
  CHECK((run(adamw, 4).weights != expected.weights));
  for (Layout layout : {Layout{1, 1, 2, 1}, Layout{2, 1, 2, 1, "zb-v", 2}}) {
    for (layout.zero = 0; layout.zero <= most_zero_stages; ++layout.zero) {
      for (const bool offload : {false, true}) {
        layout.offload = layout.parameters = offload;
        INFO(to_string(layout));
        CHECK((run(lion_job(layout), 4) == expected));
      }
    }
  }
}

TEST_CASE("a run under Lion resumes from a checkpoint to the bit, in the same layout and in another") {
  const RunRecord whole = run(lion_job({2, 1, 1, 1}), 5);
  const TempFolder folder;
  Trainer first(lion_job({2, 1, 1, 1}));
  for (int step = 0; step < 3; ++step) first.step();
  first.start_checkpoint(folder.path()).get();
  const fs::path checkpoint = checkpoint_path(folder.path(), 3);
  const CheckpointManifest manifest = verify_checkpoint(checkpoint);
  CHECK(manifest.state.optimizer == "lion");
  const InitialState initial = open_checkpoint(checkpoint, manifest, lion_job({}).config);
  CHECK(initial.states.size() == 1);
  CHECK(initial.states.contains("exp_avg"));
  for (const Layout& layout : {Layout{2, 1, 1, 1}, Layout{4, 1, 1, 1, "zb-h1"}}) {
    INFO(to_string(layout));
    CHECK((run(test::continued_job(checkpoint, lion_job(layout)), 2).weights == whole.weights));
  }
}

TEST_CASE("post-validation gives Lion the bits of steps that wait, whether a step is redone or not", "[post-validation]") {
  TinyRun tiny{.layers = 4, .microbatches = 6, .layout = {4, 1, 1, 1, "zb-h2"}};
  TrainJob job = job_of(tiny);
  job.optimizer = default_settings("lion");
  job.clip_norm = some_clip(job, 6);
  const Steps early = steps_of(job, true, 6);
  CHECK(early.same_bits(steps_of(job, false, 6)));
  CHECK(early.previewed > 0);
}

TEST_CASE("the devices keep one state under Lion and two under AdamW") {
  TrainJob lion = lion_job({}), adamw = lion_job({});
  adamw.optimizer = {};
  const auto optimizer_bytes = [](const TrainJob& job) {
    std::size_t bytes = 0;
    for (const DeviceMemory& device : estimate_job(job).devices) bytes += device.use.optimizer;
    return bytes;
  };
  CHECK(2 * optimizer_bytes(lion) == optimizer_bytes(adamw));
}
