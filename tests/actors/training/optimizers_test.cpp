// Runs under each optimizer beside AdamW and Lion: the same bits over stages, schedules and the stages of ZeRO; checkpoints
// that any layout continues; and the memory of their states.
#include "actors/early_steps.hpp"
#include "actors/golden_run.hpp"
#include "actors/several_blocks.hpp"
#include "actors/tiny_run.hpp"
#include "actors/training/job/combinations.hpp"
#include "actors/training/run/job_memory.hpp"
#include "actors/training/saved_run.hpp"
#include "catch.hpp"
#include "core/error.hpp"
#include "model/optimizer/optimizer.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string> whole_tensor_names = {"adafactor", "came", "lamb", "galore", "muon"};

TrainJob job_under(const std::string& optimizer, const Layout& layout) {
  ModelConfig config = several_blocks_config();
  config.intermediate = 300;
  TrainJob job = random_job(config, 16, 12, layout);
  job.optimizer = default_settings(optimizer);
  job.optimizer.momentum = optimizer == "sgd" ? 0.9F : job.optimizer.momentum;
  job.optimizer.galore_rank = 8;
  job.optimizer.galore_gap = 2;
  job.learning_rate.peak = optimizer == "sgd" ? 0.05 : 1e-3;
  return job;
}

std::size_t optimizer_bytes(const TrainJob& job) {
  std::size_t bytes = 0;
  for (const DeviceMemory& device : estimate_job(job).devices) bytes += device.use.optimizer;
  return bytes;
}

}  // namespace

TEST_CASE("each optimizer gives the same bits over stages, schedules and the stages of ZeRO") {
  std::vector<std::string> names = whole_tensor_names;
  names.insert(names.end(), {"sgd", "adamw-8bit"});
  for (const std::string& name : names) {
    const RunRecord expected = run(job_under(name, {1, 1, 2, 1}), 3);
    CHECK(expected.loss.back() < expected.loss.front());
    for (Layout layout : {Layout{1, 1, 2, 1}, Layout{2, 1, 2, 1, "zb-v", 2}}) {
      for (layout.zero = 0; layout.zero <= most_zero_stages; ++layout.zero) {
        INFO(name << ", " << to_string(layout));
        CHECK((run(job_under(name, layout), 3) == expected));
      }
    }
  }
}

TEST_CASE("a run under each optimizer resumes from a checkpoint to the bit, in the same layout and in another") {
  std::vector<std::string> names = whole_tensor_names;
  names.insert(names.end(), {"sgd", "adamw-8bit"});
  for (const std::string& name : names) {
    const RunRecord whole = run(job_under(name, {1, 1, 2, 1}), 5);
    Layout zero{1, 1, 2, 1};
    zero.zero = 1;
    for (const Layout& saving : {Layout{2, 1, 2, 1}, zero}) {
      const TempFolder folder;
      const fs::path checkpoint = saved_after(job_under(name, saving), 3, folder.path());
      for (const Layout& layout : {zero, Layout{4, 1, 2, 1, "zb-h1"}}) {
        INFO(name << ", saved in " << to_string(saving) << ", continued in " << to_string(layout));
        CHECK((run(continued_job(checkpoint, job_under(name, layout)), 2).weights == whole.weights));
      }
    }
  }
}

TEST_CASE("tensor-parallel ranks gather the tensors that an optimizer steps whole") {
  for (const std::string& name : whole_tensor_names) {
    const RunRecord alone = run(job_under(name, {1, 1, 1, 1}), 3), expected = run(job_under(name, {1, 2, 1, 1}), 3);
    for (std::size_t step = 0; step < alone.loss.size(); ++step)
      CHECK(expected.loss[step] == Approx(alone.loss[step]).epsilon(2e-4));
    const TempFolder folder;
    const fs::path checkpoint = saved_after(job_under(name, {2, 2, 1, 1}), 2, folder.path());
    Layout zero{1, 2, 2, 1};
    zero.zero = 1;
    for (const Layout& layout : {Layout{2, 2, 1, 1, "zb-h1"}, zero}) {
      INFO(name << ", " << to_string(layout));
      TrainJob job = job_under(name, layout);
      job.batch.microbatches = 12 / (job.batch.dp * job.batch.microbatch);
      if (layout.zero == 0) CHECK((run(job, 3).weights == expected.weights));
      const RunRecord rest = run(continued_job(checkpoint, job), 1);
      CHECK(rest.loss.front() == Approx(expected.loss.back()).epsilon(1e-5));
    }
    const RunRecord other = run(continued_job(checkpoint, job_under(name, {1, 1, 1, 1})), 1);
    CHECK(other.loss.front() == Approx(expected.loss.back()).epsilon(2e-4));
  }
}

TEST_CASE("post-validation gives optimizers of whole tensors and of blocks the bits of steps that wait", "[post-validation]") {
  for (const std::string name : {"muon", "came", "galore", "adamw-8bit"}) {
    for (const int tp : {1, 2}) {
      INFO(name << ", tp " << tp);
      TinyRun tiny{.layers = 4, .microbatches = 6, .layout = {4, tp, 1, 1, "zb-h2"}};
      TrainJob job = job_of(tiny);
      job.optimizer = default_settings(name);
      job.clip_norm = some_clip(job, 5);
      const Steps early = steps_of(job, true, 5);
      CHECK(early.same_bits(steps_of(job, false, 5)));
      CHECK(early.previewed > 0);
    }
  }
}

TEST_CASE("GPT-2's joint matrices of query, key and value are one tensor to an optimizer of whole tensors") {
  for (const std::string name : {"adafactor", "muon"}) {
    TinyRun tiny{.family = Family::gpt2, .tied = true, .layers = 2, .layout = {2, 1, 1, 1}};
    const auto job = [&] {
      TrainJob own = job_of(tiny);
      own.optimizer = default_settings(name);
      return own;
    };
    const RunRecord expected = run(job(), 3);
    const TempFolder folder;
    const fs::path checkpoint = saved_after(job(), 2, folder.path());
    CHECK((run(continued_job(checkpoint, job()), 1).weights == expected.weights));
    tiny.layout = {1, 2, 1, 1};
    CHECK(run(continued_job(checkpoint, job()), 1).loss.front() == Approx(expected.loss.back()).epsilon(1e-4));
  }
}

TEST_CASE("the devices keep as much memory of the optimizer's states as each optimizer needs") {
  TrainJob adamw = job_under("adamw", {});
  const auto share = [&](const std::string& name) {
    return static_cast<double>(optimizer_bytes(job_under(name, {}))) / static_cast<double>(optimizer_bytes(adamw));
  };
  CHECK(share("sgd") == Approx(0.5));
  CHECK(share("adamw-8bit") < 0.27);
  CHECK(share("adamw-8bit") > 0.2);
  CHECK(share("lamb") > 1);  // with scratch memory for the largest tensor
  CHECK(share("came") < 0.9);
  CHECK(share("adafactor") < 0.3);
  TrainJob plain = job_under("sgd", {});
  plain.optimizer.momentum = 0;
  CHECK(optimizer_bytes(plain) == 0);
  Layout zero{1, 1, 2, 1};
  zero.zero = 1;
  CHECK(optimizer_bytes(job_under("lamb", zero)) < 2 * optimizer_bytes(job_under("lamb", {})));
}

TEST_CASE("a checkpoint of another optimizer's states is refused by the state that this one lacks") {
  const TempFolder folder;
  const fs::path checkpoint = saved_after(job_under("muon", {1, 1, 2, 1}), 2, folder.path());
  CHECK_THAT(refusal(continued_job(checkpoint, job_under("adafactor", {1, 1, 2, 1}))),
             Contains("this state is of another optimizer"));
}

TEST_CASE("settings that cut tensors are refused by name for an optimizer that steps whole tensors") {
  const auto refused = [](const std::string& name, const Layout& layout) { return refusal(job_under(name, layout)); };
  Layout layout{1, 1, 2, 1};
  layout.offload = true;
  CHECK_THAT(refused("adafactor", layout), Contains("offload optimizer") && Contains("cut them"));
  CHECK_THAT(refused("adamw-8bit", layout), Contains("offload optimizer") && Contains("8 bits"));
  layout.offload = false;
  layout.parameters = true;
  CHECK_THAT(refused("lamb", layout), Contains("offload parameters") && Contains("cut them"));
  CHECK_THAT(refused("adamw-8bit", layout), Contains("offload parameters") && Contains("8 bits"));
}
