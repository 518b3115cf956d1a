// Costs of layouts that were never run, computed from one profile, compared with known block times.
#include "actors/training/records/profile_layout.hpp"

#include <array>

#include "catch.hpp"
#include "core/error.hpp"
#include "model/config/mode_names.hpp"
#include "model/config/recompute_layers.hpp"
#include "model/costs.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/simulate/simulate.hpp"

using namespace pipetrain;
using schedules::Placement;

namespace {

constexpr std::int64_t sequence = 256;

// Seconds of a block of each kind, in the order of BlockKind.
struct BlockSeconds {
  std::array<double, block_kinds> forward{}, input_grad{}, weight_grad{};
};

ModelConfig model() {
  ModelConfig config = preset_config("tiny");
  config.layers = 9;
  return config;
}

// Returns times in proportion to the FLOPs, except for the head, which is slower by this factor.
BlockSeconds seconds_by_flops(double head = 1) {
  BlockSeconds seconds;
  for (const BlockCount& counted : block_counts(model())) {
    const Block& block = counted.block;
    const auto kind = static_cast<std::size_t>(block.kind);
    const double all = block_flops_per_token(model(), block, sequence), products = block_flops_per_token(model(), block, 0);
    const double unit = block.kind == BlockKind::head ? 1e-9 * head : 1e-9;
    seconds.forward[kind] = unit * all / 3;
    seconds.weight_grad[kind] = unit * products / 3;
    seconds.input_grad[kind] = unit * (2 * all / 3 - products / 3);
  }
  return seconds;
}

// Returns the profile that a run of this placement would measure.
Profile profiled(const Placement& placement, bool split, const BlockSeconds& seconds, const Numerics& numerics = {}) {
  Profile profile;
  profile.model = "tiny";
  profile.config = profile_config(model());
  profile.pp = placement.stages();
  profile.chunks = placement.chunks();
  profile.v_shape = placement != Placement::looping(placement.stages(), placement.chunks());
  profile.sequence = sequence;
  profile.schedule = "1f1b";
  profile.microbatches = 8;
  profile.stages.resize(static_cast<std::size_t>(placement.stages()));
  profile.settings.numerics = numerics;
  const auto parts = partition_blocks(model(), placement.virtual_stages(), sequence, numerics);
  for (int stage = 0; stage < placement.stages(); ++stage) {
    StageProfile& row = profile.stages[static_cast<std::size_t>(stage)];
    for (int chunk = 0; chunk < placement.chunks(); ++chunk) {
      ChunkProfile& cell = row.chunks.emplace_back();
      const auto& blocks = parts[static_cast<std::size_t>(placement.virtual_stage(stage, chunk))];
      const auto recompute = recompute_of_blocks(blocks, numerics);
      for (std::size_t i = 0; i < blocks.size(); ++i) {
        const Block& block = blocks[i];
        const auto kind = static_cast<std::size_t>(block.kind);
        const double again =
            1e-9 * block_recompute_flops_per_token(model(), block, sequence, recompute[i], numerics.loss_chunks);
        cell.forward += seconds.forward[kind];
        (split ? cell.input_grad : cell.backward) += seconds.input_grad[kind] + again;
        (split ? cell.weight_grad : cell.backward) += seconds.weight_grad[kind];
        row.optimizer += 1e-9 * static_cast<double>(block_parameter_count(model(), block));
      }
    }
  }
  for (int v = 0; v + 1 < placement.virtual_stages(); ++v)
    profile.p2p.push_back(placement.at(v).stage == placement.at(v + 1).stage ? 0 : 2e-5);
  return profile;
}

double step_seconds(const Profile& profile, const char* schedule, int chunks) {
  const auto plan = with_end_of_step(schedules::build_schedule(schedule, {profile.pp, chunks, 8}), {});
  return summarize(schedules::simulate(plan, profile.costs())).makespan;
}

}  // namespace

TEST_CASE("blocks that take what their FLOPs say give every other layout its exact step") {
  const BlockSeconds seconds = seconds_by_flops();
  for (const Placement& from : {Placement::looping(2, 1), Placement::looping(3, 2), Placement::v_shape(2)})
    for (const bool was_split : {true, false}) {
      const Profile measured = profiled(from, was_split, seconds);
      for (const auto& [schedule, pp, chunks] :
           {std::tuple{"1f1b", 4, 1}, {"zb-h1", 3, 1}, {"interleaved", 2, 2}, {"zb-v", 4, 2}, {"gpipe", 1, 1}}) {
        INFO(schedule << " pp " << pp << " from pp " << from.stages() << (was_split ? " split" : ""));
        const auto to = schedules::build_schedule(schedule, {pp, chunks, 8}).placement;
        const bool split = std::string(schedule).starts_with("zb");
        const Profile predicted = profile_for(measured, to, split);
        CHECK(predicted.placement() == to);
        CHECK(step_seconds(predicted, schedule, chunks) ==
              Approx(step_seconds(profiled(to, split, seconds), schedule, chunks)).epsilon(1e-9));
      }
    }
}

TEST_CASE("blocks of each kind take what a profile's stages say of them") {
  for (const bool split : {true, false})
    for (const double head : {1.0, 1.6}) {
      const BlockSeconds seconds = seconds_by_flops(head);
      const auto blocks = measured_blocks(profiled(Placement::looping(4, 1), split, seconds));
      const double tolerance = head == 1 ? 1e-9 : 0.1;  // a head alone on its stage cannot be separated from its neighbours
      double sum = 0, measured = 0;
      for (std::size_t kind = 0; kind < blocks.size(); ++kind) {
        CHECK(blocks[kind].forward == Approx(seconds.forward[kind]).epsilon(tolerance));
        CHECK(blocks[kind].input_grad == Approx(seconds.input_grad[kind]).epsilon(tolerance));
        CHECK(blocks[kind].weight_grad == Approx(seconds.weight_grad[kind]).epsilon(tolerance));
        const bool is_layer = kind == 1 || kind == 2;
        sum += (is_layer ? 9 : 1) * blocks[kind].forward;
        measured += (is_layer ? 9 : 1) * seconds.forward[kind];
      }
      CHECK(sum == Approx(measured).epsilon(1e-9));  // all measured time is attributed to some block
    }
  const BlockSeconds seconds = seconds_by_flops();
  const Numerics some{.recompute = Recompute::full, .recompute_layers = 1};
  const auto blocks = measured_blocks(profiled(Placement::looping(2, 1), true, seconds, some));
  for (const BlockCount& counted : block_counts(model())) {
    const Block& block = counted.block;
    const auto kind = static_cast<std::size_t>(block.kind);
    const double again = 1e-9 * block_recompute_flops_per_token(model(), block, sequence, Recompute::full);
    CHECK(blocks[kind].forward == Approx(seconds.forward[kind]).epsilon(1e-9));
    CHECK(blocks[kind].input_grad == Approx(seconds.input_grad[kind] + again).epsilon(1e-9));
  }
}

TEST_CASE("a profile's cut is that of its stages, and other cuts get its blocks' times") {
  const BlockSeconds seconds = seconds_by_flops();
  const auto placement = Placement::looping(2, 2);
  const Profile level = profiled(placement, true, seconds);
  const Cut cut = {2, 7, 1, 8};
  const Profile uneven = profile_for(level, placement, true, cut);
  CHECK(uneven.cut == cut);
  double forward = 0;  // of virtual stage 1: blocks 2 to 8, attention first
  for (int i = 0; i < 7; ++i) forward += seconds.forward[i % 2 == 0 ? 1 : 2];
  CHECK(uneven.stages[1].chunks[0].forward == Approx(forward).epsilon(1e-9));
  // Converts back from a profile that contains its own cut.
  const Profile back = profile_for(uneven, placement, true);
  CHECK(step_seconds(back, "interleaved", 2) == Approx(step_seconds(level, "interleaved", 2)).epsilon(1e-9));
  CHECK(step_seconds(uneven, "interleaved", 2) > step_seconds(level, "interleaved", 2));
}

TEST_CASE("layers that recompute, all or some of each stage's, take what their FLOPs say in other layouts too") {
  const BlockSeconds seconds = seconds_by_flops();
  for (const std::optional<std::int64_t> layers : {std::optional<std::int64_t>{}, {1}, {2}}) {
    const Numerics numerics{.recompute = Recompute::full, .recompute_layers = layers};
    const Profile measured = profiled(Placement::looping(2, 1), true, seconds, numerics);
    for (const int pp : {1, 3, 4}) {
      INFO(layers.value_or(0) << " layers, pp " << pp);
      const auto to = Placement::looping(pp, 1);
      CHECK(step_seconds(profile_for(measured, to, true), "zb-h1", 1) ==
            Approx(step_seconds(profiled(to, true, seconds, numerics), "zb-h1", 1)).epsilon(1e-9));
    }
  }
}

TEST_CASE("a head in chunks takes its second forward's FLOPs in other layouts too") {
  const BlockSeconds seconds = seconds_by_flops();
  const Numerics numerics{.loss_chunks = 4};
  const Profile measured = profiled(Placement::looping(2, 1), true, seconds, numerics);
  const auto to = Placement::looping(4, 1);
  CHECK(step_seconds(profile_for(measured, to, true), "zb-h1", 1) ==
        Approx(step_seconds(profiled(to, true, seconds, numerics), "zb-h1", 1)).epsilon(1e-9));
}

TEST_CASE("a head that is slower than its FLOPs say is found out from stages with and without it") {
  const BlockSeconds seconds = seconds_by_flops(1.6);
  const Profile measured = profiled(Placement::looping(4, 1), true, seconds);
  for (const int pp : {2, 3, 6}) {
    const auto to = Placement::looping(pp, 1);
    CHECK(step_seconds(profile_for(measured, to, true), "zb-h1", 1) ==
          Approx(step_seconds(profiled(to, true, seconds), "zb-h1", 1)).epsilon(0.01));
  }
}

TEST_CASE("a layout's own profile gives its stages back") {
  const Profile measured = profiled(Placement::looping(3, 1), true, seconds_by_flops(3));
  const Profile same = profile_for(measured, Placement::looping(3, 1), true);
  for (std::size_t stage = 0; stage < 3; ++stage) {
    CHECK(same.stages[stage].chunks[0].forward == Approx(measured.stages[stage].chunks[0].forward));
    CHECK(same.stages[stage].chunks[0].weight_grad == Approx(measured.stages[stage].chunks[0].weight_grad));
    CHECK(same.stages[stage].optimizer == Approx(measured.stages[stage].optimizer));
  }
  CHECK(same.p2p == measured.p2p);
}

TEST_CASE("ranks that share sequences keep their part of them in other layouts too") {
  const auto held = [](int cp) {
    Profile measured = profiled(Placement::looping(2, 1), true, seconds_by_flops());
    measured.has_settings = true, measured.settings.layout.cp = cp;
    return profile_for(measured, Placement::looping(3, 1), true).stages[0].chunks[0].held_bytes;
  };
  CHECK(held(1) > 0);
  CHECK(held(2) == Approx(held(1) / 2).epsilon(0.01));
}

TEST_CASE("a model of fewer blocks than the layout has places is refused") {
  const Profile measured = profiled(Placement::looping(2, 1), true, seconds_by_flops());
  CHECK_THROWS_AS(profile_for(measured, Placement::looping(19, 1), true), Error);
}
