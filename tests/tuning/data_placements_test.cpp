// The choice of where data lives, beside the times and memory that tune finds for each placement that a user could give.
#include "tuning/data_placements.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "actors/training/job/job_plan.hpp"
#include "actors/training/job/train_job.hpp"
#include "catch.hpp"
#include "model/config/config.hpp"

using namespace pipetrain;

namespace {

constexpr double gib = std::int64_t{1} << 30;
constexpr std::int64_t sequence = 2048;

struct Case {
  const char* model;
  double memory;  // GiB of a device
  int pp;
};

std::string to_string(const Case& one) { return fmt::format("{}, {} GiB, pp {}", one.model, one.memory, one.pp); }

PlacementSpeed gpu_speed() {
  PlacementSpeed all;
  all.speed = {.flops = 4e14, .memory_rate = 3e12, .link_rate = 3e11, .latency = 15e-6, .block_overhead = 40e-6};
  return all;
}

TrainJob job_of(const Case& one) {
  TrainJob job;
  job.config = preset_config(one.model);
  job.layout.pp = one.pp;
  job.batch.microbatch = 1;
  job.batch.microbatches = 8;
  job.devices.kind = DeviceKind::cuda;
  job.numerics.precision = Precision::bf16();
  return job;
}

// Returns what tune finds for the one layout of the job with this placement; no value where it does not fit.
std::optional<RankedLayout> found_by_tune(const Case& one, const Offload& offload) {
  LayoutRequest request;
  request.config = preset_config(one.model);
  request.devices = one.pp;
  request.pp = one.pp;
  request.most_tp = 1;
  request.sequence = sequence;
  request.global_batch = 8;
  request.speed = gpu_speed().speed;
  request.speed.memory_bytes = one.memory * gib;
  request.precision = Precision::bf16();
  request.device = DeviceKind::cuda;
  request.recompute = Recompute::none;
  request.offload = offload;
  for (RankedLayout& ranked : search_layouts(request, 1'000'000).best)
    if (ranked.layout.microbatch == 1 && ranked.layout.schedule == "1f1b") return ranked;
  return {};
}

// Returns the seconds of the fastest placement of states, parameters and gradients that a user could choose; no value where
// none fits.
std::optional<double> best_by_hand(const Case& one) {
  std::optional<double> best;
  for (unsigned bits = 0; bits < 8; ++bits) {
    Offload offload;
    offload.optimizer = (bits & 1U) != 0;
    offload.parameters = (bits & 2U) != 0;
    offload.gradients = (bits & 4U) != 0;
    if (const auto found = found_by_tune(one, offload)) best = std::min(best.value_or(found->seconds), found->seconds);
  }
  return best;
}

constexpr Case cases[] = {{"gpt2-xl", 8, 1},      {"gpt2-xl", 24, 1},     {"gpt2-xl", 80, 1},   {"llama3.2-1b", 8, 1},
                          {"llama3.2-1b", 16, 1}, {"llama3.2-1b", 40, 1}, {"llama-7b", 24, 1},  {"llama-7b", 40, 1},
                          {"llama-7b", 80, 1},    {"llama-13b", 40, 1},   {"llama-13b", 80, 1}, {"llama-7b", 24, 4}};

}  // namespace

TEST_CASE("offload auto fits where some placement fits, and its step is simulated to be as short as that of the best",
          "[placement]") {
  int moving = 0, refused = 0;
  for (const Case& one : cases) {
    INFO(to_string(one));
    const auto placements = simulate_placements(job_of(one), sequence, gpu_speed(), {.device = one.memory * gib});
    const auto chosen = fastest_placement(placements);
    const auto by_hand = best_by_hand(one);
    INFO((chosen ? fmt::format("chosen {}, {} s", to_string(chosen->offload), chosen->seconds) : "none"));
    INFO((by_hand ? fmt::format("by hand {} s", *by_hand) : "none by hand"));
    if (by_hand) {
      REQUIRE(chosen);
      CHECK(chosen->seconds <= 1.03 * *by_hand);
    }
    refused += !chosen;
    if (!chosen) continue;
    CHECK(static_cast<double>(chosen->device) <= one.memory * gib);
    moving += chosen->offload.any();
  }
  CHECK(moving >= 4);
  CHECK(refused <= 6);
}

TEST_CASE("offload auto counts and simulates a placement as tune does", "[placement]") {
  for (const Case& one : {Case{"llama3.2-1b", 80, 1}, Case{"llama-7b", 80, 4}}) {
    const auto placements = simulate_placements(job_of(one), sequence, gpu_speed(), {.device = one.memory * gib});
    int compared = 0;
    for (const SimulatedPlacement& placed : placements) {
      if (placed.offload.activations) continue;
      INFO(to_string(one) << ": " << to_string(placed.offload));
      const auto found = found_by_tune(one, placed.offload);
      REQUIRE(found.has_value() == placed.fits);
      if (!found) continue;
      CHECK(placed.seconds == Approx(found->seconds));
      CHECK(placed.device == *std::max_element(found->memory.begin(), found->memory.end()));
      ++compared;
    }
    CHECK(compared == 8);
  }
}

TEST_CASE("offload auto keeps everything on devices that have room, and moves less where two placements are as fast",
          "[placement]") {
  const Case one{"llama3.2-1b", 80, 1};
  const auto roomy = fastest_placement(simulate_placements(job_of(one), sequence, gpu_speed(), {.device = 80 * gib}));
  REQUIRE(roomy);
  CHECK_FALSE(roomy->offload.any());
  std::vector<SimulatedPlacement> twins(2);
  twins[0] = {.seconds = 1, .host = 8, .fits = true};
  twins[1] = {.seconds = 1, .host = 4, .fits = true};
  CHECK(fastest_placement(twins)->host == 4);
  twins[1].fits = false;
  CHECK(fastest_placement(twins)->host == 8);
}

TEST_CASE("offload auto takes a disk where the job names a folder, and the host's memory where that is faster", "[placement]") {
  TrainJob job = job_of({"llama3.2-1b", 16, 1});
  PlacementSpeed speed = gpu_speed();
  speed.disk_rate = 2e9;
  job.offload.folder = "/a/disk";
  const DataRoom room{.device = 16 * gib};
  const auto host = fastest_placement(simulate_placements(job, sequence, speed, room));
  REQUIRE(host);
  CHECK_FALSE(host->offload.to_disk());
  DataRoom little = room;
  little.host = gib / 8;
  const auto disk = fastest_placement(simulate_placements(job, sequence, speed, little));
  REQUIRE(disk);
  CHECK(disk->offload.to_disk());
  CHECK(disk->seconds > host->seconds);
  little.disk = gib / 8;
  CHECK_FALSE(fastest_placement(simulate_placements(job, sequence, speed, little)));
}

TEST_CASE("the first steps correct the rate of transfers, and with it the placement", "[placement]") {
  const Case one{"llama3.2-1b", 80, 1};
  TrainJob job = job_of(one);
  job.plan = build_plan(job);
  const DataRoom room{.device = 80 * gib};
  PlacementSpeed speed = gpu_speed();
  speed.speed.memory_bytes = room.device;
  CHECK_FALSE(better_placement(job, {}, sequence, speed, room));
  TrainJob moving = job;
  moving.offload.optimizer = true;
  const auto better = better_placement(moving, {}, sequence, speed, room);
  REQUIRE(better);
  CHECK_FALSE(better->offload.any());
  CHECK_FALSE(better_placement(moving, {}, sequence, speed, {.device = 12 * gib}));
}
