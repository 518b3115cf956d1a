// A run with a slow stage is cut anew from its own measurements.
#include "tuning/retuned_layout.hpp"

#include <algorithm>
#include <numeric>

#include "actors/training/job/job_plan.hpp"
#include "actors/training/job/train_job.hpp"
#include "actors/training/records/profile_layout.hpp"
#include "catch.hpp"
#include "model/config/block.hpp"
#include "model/costs.hpp"
#include "schedules/builders/builders.hpp"

using namespace pipetrain;
using schedules::Placement;

namespace {

constexpr std::int64_t retuned_sequence = 64;

ModelConfig retuned_model() {
  ModelConfig config = preset_config("tiny");
  config.layers = 16;
  return config;
}

// Returns the profile of a run cut by cost on devices of which one takes `slowness` times as long.
Profile retuned_profile(const Placement& placement, bool split, int slow_stage, double slowness) {
  Profile profile;
  profile.model = "tiny";
  profile.config = profile_config(retuned_model());
  profile.pp = placement.stages();
  profile.chunks = placement.chunks();
  profile.v_shape = placement != Placement::looping(placement.stages(), placement.chunks());
  profile.sequence = retuned_sequence;
  profile.schedule = "1f1b";
  profile.microbatches = 8;
  profile.stages.resize(static_cast<std::size_t>(placement.stages()));
  const auto parts = partition_blocks(retuned_model(), placement.virtual_stages(), retuned_sequence, {});
  profile.cut = cut_of(parts);
  for (int v = 0; v < placement.virtual_stages(); ++v) {
    const auto at = placement.at(v);
    StageProfile& stage = profile.stages[static_cast<std::size_t>(at.stage)];
    if (stage.chunks.empty()) stage.chunks.resize(static_cast<std::size_t>(placement.chunks()));
    ChunkProfile& chunk = stage.chunks[static_cast<std::size_t>(at.chunk)];
    for (const Block& block : parts[static_cast<std::size_t>(v)]) {
      const double unit = 1e-9 * (at.stage == slow_stage ? slowness : 1);
      const double all = unit * block_flops_per_token(retuned_model(), block, retuned_sequence);
      const double weight_grad = unit * block_weight_grad_flops_per_token(retuned_model(), block);
      chunk.forward += all / 3;
      (split ? chunk.input_grad : chunk.backward) += 2 * all / 3 - weight_grad;
      (split ? chunk.weight_grad : chunk.backward) += weight_grad;
    }
  }
  for (int v = 0; v + 1 < placement.virtual_stages(); ++v)
    profile.p2p.push_back(placement.at(v).stage == placement.at(v + 1).stage ? 0 : 1e-6);
  return profile;
}

}  // namespace

TEST_CASE("a cut from measured times wins back most of what a stage of half speed costs", "[retune]") {
  const auto [schedule, chunks] = GENERATE(table<const char*, int>({{"1f1b", 1}, {"zb-h1", 1}, {"interleaved", 2}}));
  const int slow_stage = GENERATE(0, 1, 3);
  INFO(schedule << ", stage " << slow_stage << " is slow");
  const auto plan = with_end_of_step(schedules::build_schedule(schedule, {4, chunks, 8}), {});
  const bool split = std::string(schedule) == "zb-h1";
  const Profile healthy = retuned_profile(plan.placement, split, 0, 1),
                slow = retuned_profile(plan.placement, split, slow_stage, 2);
  const double whole = retuned_seconds(healthy, plan, healthy.cut), lost = retuned_seconds(slow, plan, slow.cut);
  CHECK(lost > 1.5 * whole);
  const auto found = retune_cut(slow, plan, {.seconds = 10, .cuts = 2000});
  REQUIRE(found);
  CHECK(found->before == Approx(lost));
  CHECK((lost - found->after) / (lost - whole) > 0.6);
  CHECK(std::accumulate(found->cut.begin(), found->cut.end(), std::int64_t{0}) == 32);
}

TEST_CASE("the slowness of a stage is that of its device whatever blocks it has", "[retune]") {
  const Placement placement = Placement::looping(4, 1);
  const auto slowness = slowness_of_stages(retuned_profile(placement, false, 2, 3));
  const double others = *std::max_element(slowness.begin(), slowness.begin() + 2);
  CHECK(slowness[2] / others == Approx(3).epsilon(0.05));
  for (const double even : slowness_of_stages(retuned_profile(placement, false, 0, 1))) CHECK(even == Approx(1).epsilon(1e-6));
}

TEST_CASE("measured times find another schedule and less recomputation, and the best is first", "[retune]") {
  TrainJob job;
  job.config = retuned_model();
  job.layout.pp = 4;
  job.batch = {1, 8, 1};
  job.numerics.recompute = GENERATE(Recompute::none, Recompute::full);
  job.plan = build_plan(job);
  const int slow_stage = GENERATE(1, 3);
  Profile measured = retuned_profile(job.plan->placement, false, slow_stage, 2);
  measured.settings.numerics = job.numerics;
  const double now = retuned_seconds(measured, *job.plan, measured.cut);
  const CutLimits limits{.seconds = 30, .cuts = 2000};
  const auto found = retune_layout(measured, job, limits);
  REQUIRE(!found.empty());
  const auto cut = retune_cut(measured, *job.plan, limits);
  REQUIRE(cut);
  CHECK(found.front().seconds <= cut->after);
  for (std::size_t i = 0; i < found.size(); ++i) {
    CHECK(found[i].seconds < (i + 1 < found.size() ? found[i + 1].seconds * (1 + 1e-12) : now));
    CHECK(found[i].recompute <= job.numerics.recompute);
    CHECK(std::accumulate(found[i].cut.begin(), found[i].cut.end(), std::int64_t{0}) == 32);
  }
  const auto has = [&](const auto& matches) { return std::any_of(found.begin(), found.end(), matches); };
  CHECK(has([](const RetunedLayout& one) { return one.schedule != "1f1b"; }));
  CHECK(has([](const RetunedLayout& one) { return one.recompute == Recompute::none; }));
  if (job.numerics.recompute == Recompute::full) CHECK(found.front().recompute == Recompute::none);

  job.layout.plan = job.plan;  // a given plan stays
  for (const RetunedLayout& one : retune_layout(measured, job, limits)) CHECK(one.schedule == "1f1b");
}

TEST_CASE("steps that differ ask for a larger gain from another layout, and one odd step does not", "[retune]") {
  CHECK(least_retuned_gain({1, 1, 1, 1, 1}) == Approx(0.05));
  CHECK(least_retuned_gain({1, 1.02, 9, 1.01, 1}) == Approx(0.05));
  CHECK(least_retuned_gain({1, 0.8, 1.2, 0.9, 1.3}) == Approx(0.3));
  CHECK(least_retuned_gain({2, 4, 3}) == Approx(0.05));
}

TEST_CASE("a profile without recomputation has the backwards that the FLOPs leave", "[retune]") {
  const Placement placement = Placement::looping(4, 1);
  Profile measured = retuned_profile(placement, false, 0, 1);
  CHECK(with_recompute(measured, Recompute::none).stages[1].chunks[0].backward ==
        Approx(measured.stages[1].chunks[0].backward));
  measured.settings.numerics.recompute = Recompute::full;
  const Profile lighter = with_recompute(measured, Recompute::none);
  for (std::size_t stage = 0; stage < 4; ++stage) {
    const double ratio = lighter.stages[stage].chunks[0].backward / measured.stages[stage].chunks[0].backward;
    CHECK(ratio > 0.6);
    CHECK(ratio < 0.8);  // full recomputation adds one forward to a backward of two
    CHECK(lighter.stages[stage].chunks[0].forward == measured.stages[stage].chunks[0].forward);
  }
  CHECK(lighter.cut == measured.cut);
}
