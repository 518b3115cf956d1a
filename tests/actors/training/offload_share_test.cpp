// A share of the optimizer's states outside of the device gives the bits of states that stay, and takes the bytes it says.
#include <filesystem>

#include "actors/golden_run.hpp"
#include "actors/several_blocks.hpp"
#include "actors/training/checkpoint/checkpoint.hpp"
#include "actors/training/checkpoint/checkpoint_folder.hpp"
#include "actors/training/estimated_memory.hpp"
#include "actors/training/offload/offloaded_blocks.hpp"
#include "actors/training/run/job_memory.hpp"
#include "catch.hpp"
#include "model/costs.hpp"
#include "model/named_model.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using namespace pipetrain::test;

namespace {

Offload on_disk(double fraction, bool parameters = false, bool gradients = false) {
  return {.optimizer = fraction > 0,
          .optimizer_fraction = fraction > 0 ? fraction : 1,
          .parameters = parameters,
          .gradients = gradients,
          .folder = std::filesystem::temp_directory_path()};
}

}  // namespace

TEST_CASE("offloaded blocks lie evenly between those that stay, and each has memory of its own") {
  for (const std::size_t count : {1, 2, 7, 8, 13}) {
    for (const double fraction : {0.01, 0.25, 0.3, 0.5, 0.7, 1.0}) {
      for (const std::size_t window_bytes : {0, 2}) {
        INFO(count << " blocks, fraction " << fraction << ", windows " << window_bytes);
        const std::size_t length = OffloadedBlocks({.elements = 1}).block_elements();
        const OffloadedBlocks blocks(
            {.arrays = 2, .elements = count * length, .window_bytes = window_bytes, .fraction = fraction});
        REQUIRE(blocks.count() * blocks.block_elements() >= count * length);
        std::size_t outside = 0, staying = 0, turn = 0;
        for (std::size_t block = 0; block < blocks.count(); ++block) {
          std::size_t& before = blocks.is_outside(block) ? outside : staying;
          CHECK(blocks.begin(0, blocks.region(block).begin) == before * blocks.block_bytes());
          ++before;
          if (!blocks.moves(block)) continue;
          CHECK(blocks.turn(block) == turn);
          CHECK(blocks.block_at(turn) == block);
          ++turn;
        }
        const double share = static_cast<double>(outside) / static_cast<double>(blocks.count());
        CHECK(share >= fraction - 1e-9);
        CHECK(share < fraction + 1.0 / static_cast<double>(blocks.count()));
        CHECK(turn == blocks.moving());
        CHECK(blocks.outside_bytes() == outside * blocks.block_bytes());
        CHECK(blocks.resident_bytes() == staying * blocks.block_bytes());
      }
    }
  }
}

TEST_CASE("a share of the states on a disk gives the bits of states in memory") {
  const auto run_with = [](const Layout& layout, const Precision& precision, const Offload& offload) {
    TrainJob job = random_job(several_blocks_config(true), 16, 4, layout);
    job.numerics.precision = precision;
    job.offload = offload;
    return run(std::move(job), 2);
  };
  for (const Precision& precision : {Precision::fp32(), Precision::bf16()}) {
    for (Layout layout : {Layout{1, 1, 1, 2}, Layout{2, 1, 2, 1, "zb-v", 2}}) {
      const RunRecord expected = run_with(layout, precision, {});
      layout.zero = layout.dp > 1 ? 1 : 0;
      for (const Offload& offload : {on_disk(0.3), on_disk(0.5, true), on_disk(0.7, true, true)}) {
        INFO(to_string(layout) << ", " << to_string(offload) << " " << offload.optimizer_fraction);
        CHECK((run_with(layout, precision, offload) == expected));
      }
    }
  }
}

TEST_CASE("checkpoints of runs that offload one share resume with another, and in another layout") {
  const auto job_of = [](const Layout& layout, double fraction) {
    TrainJob job = random_job(several_blocks_config(), 16, 4, layout);
    job.numerics.precision = Precision::bf16();
    job.offload = on_disk(fraction);
    return job;
  };
  const RunRecord whole = run(job_of({1, 1, 1, 2}, 0), 2);
  const TempFolder folder;
  {
    Trainer first(job_of({1, 1, 1, 2}, 0.4));
    first.step();
    first.start_checkpoint(folder.path()).get();
  }
  const auto checkpoint = checkpoint_path(folder.path(), 1);
  const CheckpointManifest manifest = verify_checkpoint(checkpoint);
  for (const double fraction : {0.0, 0.6, 1.0}) {
    TrainJob job = job_of({2, 1, 1, 2}, fraction);
    job.initial = open_checkpoint(checkpoint, manifest, job.config);
    job.steps_done = manifest.state.step;
    const RunRecord rest = run(std::move(job), 1);
    CHECK(rest.loss.front() == whole.loss.back());
    CHECK(rest.weights == whole.weights);
  }
}

TEST_CASE("the estimated memory and disk space of a share equal what is allocated") {
  for (const Layout& layout : {Layout{2, 1, 1, 1}, Layout{1, 1, 2, 1}}) {
    for (const bool parameters : {false, true}) {
      TrainJob job = random_job(several_blocks_config(), 16, 4, layout);
      job.zero.stage = layout.dp > 1 ? 1 : 0;
      job.offload = on_disk(0.4, parameters);
      check_estimate(job, {&MemoryUse::parameters, &MemoryUse::optimizer, &MemoryUse::disk});
    }
  }
}

TEST_CASE("of a real model's states the share is on the disk, to a block, and the rest on the device with three slots") {
  for (const double fraction : {0.25, 0.5}) {
    TrainJob job = random_job(named_model("llama3.2-1b", 4), 16, 4, {1, 1, 1, 1});
    job.numerics.precision = Precision::bf16();
    job.offload = on_disk(fraction);
    const double bytes = 12 * static_cast<double>(parameter_count(job.config)), block = 12.0 * (4 << 20);
    const MemoryUse use = estimate_job(job).devices.front().use;
    CHECK(static_cast<double>(use.disk) == Approx(fraction * bytes).margin(block));
    CHECK(static_cast<double>(use.optimizer) == Approx((1 - fraction) * bytes + 3 * block).margin(block + 4096));
  }
}
