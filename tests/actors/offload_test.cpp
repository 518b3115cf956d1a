// Offloading: the bits of states that stay on the device, in less of its memory.
#include "actors/training/checkpoint.hpp"
#include "actors/training/checkpoint_folder.hpp"
#include "actors/training/job_estimate.hpp"
#include "actors/training/offload_check.hpp"
#include "catch.hpp"
#include "core/error.hpp"
#include "golden_run.hpp"
#include "model/costs.hpp"
#include "model/named_model.hpp"
#include "several_blocks.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
using Catch::Contains;

namespace {

RunRecord run_random(Layout layout, bool offload) {
  layout.offload = offload;
  return run(random_job(several_blocks_config(), 16, 12, layout), 3);
}

}  // namespace

TEST_CASE("optimizer states on a disk give the bits of states in memory, over pp, tp and dp") {
  for (const Layout& layout : {Layout{1, 1, 1, 1}, Layout{2, 2, 1, 2, "zb-h1"}, Layout{2, 1, 2, 1, "zb-v", 2}}) {
    INFO(to_string(layout));
    CHECK((run_random(layout, true) == run_random(layout, false)));
  }
}

TEST_CASE("replicas that divide states offload their shares, to the same bits") {
  Layout layout{2, 1, 2, 1};
  const RunRecord plain = run_random(layout, false);
  for (const int zero : {1, 2, 3}) {
    layout.zero = zero;
    INFO(to_string(layout));
    CHECK((run_random(layout, true) == plain));
  }
}

TEST_CASE("a checkpoint goes on with states on a disk or in memory, whichever wrote it") {
  const auto job_from = [](const std::filesystem::path& checkpoint, bool offload) {
    Layout layout{2, 1, 1, 2};
    layout.offload = offload;
    TrainJob job = random_job(several_blocks_config(), 16, 12, layout);
    if (checkpoint.empty()) return job;
    const CheckpointManifest manifest = verify_checkpoint(checkpoint);
    const CheckpointState& state = manifest.state;
    job.initial = open_checkpoint(checkpoint, manifest, job.config);
    job.steps_done = state.step;
    return job;
  };
  const RunRecord whole = run(job_from({}, false), 3);
  for (const bool writer : {false, true}) {
    const TempFolder folder;
    {
      Trainer first(job_from({}, writer));
      first.step();
      first.step();
      first.save_checkpoint(folder.path());
    }
    const RunRecord rest = run(job_from(checkpoint_path(folder.path(), 2), !writer), 1);
    CHECK(rest.loss.front() == whole.loss.back());
    CHECK(rest.grad_norm.front() == whole.grad_norm.back());
    CHECK(rest.weights == whole.weights);
  }
}

TEST_CASE("what offloading takes of devices and disk is estimated as it is allocated") {
  Layout layout{2, 1, 2, 1};
  for (layout.zero = 0; layout.zero <= most_zero_stages; ++layout.zero) {
    TrainJob job = random_job(several_blocks_config(), 16, 12, layout);
    const auto resident = estimate_job(job).devices;
    job.offload = {.optimizer = true, .folder = std::filesystem::temp_directory_path()};
    const auto estimated = estimate_job(job).devices;
    const auto taken = Trainer(job).memory();
    REQUIRE(taken.size() == estimated.size());
    for (std::size_t i = 0; i < taken.size(); ++i) {
      CHECK(taken[i].use.optimizer == estimated[i].use.optimizer);
      CHECK(taken[i].use.disk == estimated[i].use.disk);
      CHECK(taken[i].use.host == 0);
      CHECK(estimated[i].use.disk >= resident[i].use.optimizer);
    }
  }
}

TEST_CASE("of a real model a device keeps three blocks of states, and the disk has all, within 1 %") {
  for (const Precision& precision : {Precision::fp32(), Precision::bf16()}) {
    TrainJob job = random_job(named_model("llama3.2-1b", 4), 16, 4, {1, 1, 1, 1});
    job.numerics.precision = precision;
    job.offload = {.optimizer = true, .folder = std::filesystem::temp_directory_path()};
    const auto count = static_cast<double>(parameter_count(job.config));
    const double arrays = precision.rounds_weights() ? 3 : 2, block = 4.0 * (1 << 20) * 4;
    const MemoryUse use = estimate_job(job).devices.front().use;
    CHECK(static_cast<double>(use.optimizer) == Approx(3 * arrays * block).epsilon(0.01));
    CHECK(static_cast<double>(use.disk) == Approx(arrays * 4 * count).epsilon(0.01));
    CHECK(static_cast<double>(use.parameters) == Approx((precision.rounds_weights() ? 2 : 4) * count).epsilon(0.01));
  }
}

TEST_CASE("offloading that moves nothing, and disks without room, are refused before anything runs") {
  TrainJob job = random_job(several_blocks_config(), 16, 12, {1, 1, 1, 1});
  job.offload.optimizer = true;
  CHECK_THROWS_WITH(check_offload(job), Contains("there is nothing to move"));
  job.offload.folder = "/proc";
  CHECK_THROWS_WITH(check_offload(job), Contains("/proc: its file system has no direct I/O"));
  job.offload.folder = std::filesystem::temp_directory_path();
  CHECK_NOTHROW(check_offload(job));
  auto devices = estimate_job(job).devices;
  CHECK_FALSE(offload_shortage(job, devices));
  devices.front().use.disk = std::size_t{1} << 60;
  REQUIRE(offload_shortage(job, devices));
  CHECK_THAT(offload_shortage(job, devices)->what(), Contains("offload-to") && Contains("make room"));
}
