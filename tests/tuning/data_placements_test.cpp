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
#include "model/config/cut.hpp"
#include "tuning/layout_costs.hpp"

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

// Returns the seconds of the fastest placement of shares of the states, parameters and gradients that a user could choose; no
// value where none fits.
std::optional<double> best_by_hand(const Case& one) {
  std::optional<double> best;
  for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0})
    for (unsigned bits = 0; bits < 4; ++bits) {
      if (bits > 0 && share > 0 && share < 1) continue;  // their simulations would take long
      Offload offload;
      offload.optimizer = share > 0;
      if (share > 0) offload.optimizer_fraction = share;
      offload.parameters = (bits & 1U) != 0;
      offload.gradients = (bits & 2U) != 0;
      if (const auto found = found_by_tune(one, offload)) best = std::min(best.value_or(found->seconds), found->seconds);
    }
  return best;
}

// Returns the profile of a run of the job on devices of this speed.
Profile profile_at(const TrainJob& job, const PlacementSpeed& speed) {
  LayoutRequest request = request_of(job, sequence);
  request.speed = speed.speed;
  const Layout layout = layout_of(job, *job.plan);
  LayoutCosts of(request);
  const schedules::Costs costs = of.of(layout, job.plan->placement);
  Profile profile;
  profile.config = profile_config(job.config);
  profile.pp = job.layout.pp;
  profile.microbatch = static_cast<int>(job.batch.microbatch);
  profile.microbatches = static_cast<int>(job.batch.microbatches);
  profile.settings.devices.kind = job.devices.kind;
  profile.sequence = sequence;
  profile.cut = cut_of(of.blocks(layout));
  for (std::size_t stage = 0; stage < costs.chunks.size(); ++stage) {
    StageProfile& row = profile.stages.emplace_back();
    row.norm = costs.norm[stage];
    row.optimizer = costs.optimizer[stage];
    for (const schedules::ChunkCost& cost : costs.chunks[stage])
      row.chunks.push_back({.forward = cost.forward, .backward = cost.input_grad + cost.weight_grad});
  }
  return profile;
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
  moving.plan = job.plan;
  const auto better = better_placement(moving, {}, sequence, speed, room);
  REQUIRE(better);
  CHECK_FALSE(better->offload.any());
  const DataRoom little{.device = 14 * gib};
  moving.offload = fastest_placement(simulate_placements(job, sequence, speed, little))->offload;
  CHECK(moving.offload.any());
  CHECK_FALSE(better_placement(moving, {}, sequence, speed, little));
}

TEST_CASE("of the optimizer's states as many stay on the devices as have room there", "[placement]") {
  const Case one{"llama3.2-1b", 80, 1};
  double before = 1;
  for (const double memory : {14.0, 20.0, 24.0}) {
    const auto placements = simulate_placements(job_of(one), sequence, gpu_speed(), {.device = memory * gib});
    const auto found = std::find_if(placements.begin(), placements.end(),
                                    [](const SimulatedPlacement& placed) { return to_string(placed.offload) == "optimizer"; });
    REQUIRE(found != placements.end());
    INFO(memory << " GiB: " << found->offload.optimizer_fraction);
    REQUIRE(found->fits);
    CHECK(found->offload.optimizer_fraction < before);
    before = found->offload.optimizer_fraction;
    CHECK(static_cast<double>(found->device) > (memory - 0.3) * gib);  // two hundredths of the states
  }
}

TEST_CASE("a rate that is wrong by a factor of eight is found in the first steps' times, and the placement corrected",
          "[placement]") {
  struct Wrong {
    double factor, memory;
    bool changes;  // where the choice by the wrong rate is more than 3 % slower than the best one
  };
  for (const Wrong& wrong : {Wrong{1.0 / 8, 32, false}, Wrong{8, 28, true}}) {
    INFO("factor " << wrong.factor << ", " << wrong.memory << " GiB");
    TrainJob job = job_of({"llama3.2-1b", wrong.memory, 1});
    job.layout.schedule = "gpipe";
    const DataRoom room{.device = wrong.memory * gib};
    const PlacementSpeed truth = gpu_speed();
    PlacementSpeed given = truth;
    given.speed.offload_rate *= wrong.factor;
    const auto chosen = fastest_placement(simulate_placements(job, sequence, given, room));
    const auto placements = simulate_placements(job, sequence, truth, room);
    const auto best = fastest_placement(placements);
    REQUIRE((chosen && best));
    job.offload = chosen->offload;
    job.plan = build_plan(job);
    const PlacementSpeed corrected = corrected_speed(job, sequence, given, profile_at(job, truth));
    CHECK(corrected.speed.offload_rate == Approx(truth.speed.offload_rate).epsilon(0.01));
    const auto better = better_placement(job, {}, sequence, corrected, room);
    CHECK(better.has_value() == wrong.changes);
    const Offload last = better ? better->offload : job.offload;
    const auto found = std::find_if(placements.begin(), placements.end(),
                                    [&](const SimulatedPlacement& placed) { return placed.offload == last; });
    REQUIRE(found != placements.end());
    CHECK(found->fits);
    CHECK(found->seconds <= 1.03 * best->seconds);
  }
}
