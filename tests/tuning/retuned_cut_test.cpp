// A run with a slow stage is cut anew from its own measurements.
#include "tuning/retuned_cut.hpp"

#include <algorithm>
#include <numeric>

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
