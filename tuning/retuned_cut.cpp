#include "tuning/retuned_cut.hpp"

#include <algorithm>
#include <array>

#include "actors/training/records/profile_layout.hpp"
#include "model/config/block.hpp"
#include "model/parameters/parameters.hpp"
#include "schedules/simulate/simulate.hpp"
#include "schedules/simulate/timeline.hpp"

namespace pipetrain {
namespace {

using BlockSecondsOfKinds = std::array<MeasuredBlock, block_kinds>;

std::vector<std::vector<Block>> parts_of_run(const Profile& measured) {
  const ModelConfig config = measured.measured_model();
  const int parts = measured.placement().virtual_stages();
  return measured.cut.empty() ? partition_blocks(config, parts, measured.sequence, measured.settings.numerics)
                              : cut_blocks(config, measured.cut, parts);
}

double seconds_of(const MeasuredBlock& block) { return block.forward + block.input_grad + block.weight_grad; }

double seconds_of(const ChunkProfile& chunk) {
  const double split = chunk.input_grad + chunk.weight_grad;
  return chunk.forward + (split > 0 ? split : chunk.backward);
}

void scale(ChunkProfile& chunk, double factor) {
  for (double ChunkProfile::*seconds :
       {&ChunkProfile::forward, &ChunkProfile::backward, &ChunkProfile::input_grad, &ChunkProfile::weight_grad})
    chunk.*seconds *= factor;
}

// Simulates cuts with the blocks' times on the fastest device, and then each stage's slowness.
class RetunedStep {
 public:
  RetunedStep(const Profile& measured, const schedules::Plan& plan)
      : plan_(plan), slowness_(slowness_of_stages(measured)), even_(measured) {
    for (std::size_t stage = 0; stage < slowness_.size(); ++stage)
      for (ChunkProfile& chunk : even_.stages[stage].chunks) scale(chunk, 1 / slowness_[stage]);
  }

  double seconds(const Cut& cut) const {
    Profile profile = profile_for(even_, plan_.placement, splits_backward(plan_), cut);
    for (std::size_t stage = 0; stage < slowness_.size(); ++stage)
      for (ChunkProfile& chunk : profile.stages[stage].chunks) scale(chunk, slowness_[stage]);
    return schedules::summarize(schedules::simulate(plan_, profile.costs())).makespan;
  }

  // Returns the attention and MLP blocks in order; the first includes the embedding, the last the head and what goes with it.
  std::vector<BlockSeconds> blocks() const {
    const BlockSecondsOfKinds kinds = measured_blocks(even_);
    std::vector<BlockSeconds> blocks;
    const auto add = [](BlockSeconds& to, const MeasuredBlock& block) {
      to.forward += block.forward;
      to.input_grad += block.input_grad;
      to.weight_grad += block.weight_grad;
    };
    bool ends = false;  // true for what goes with the head
    for (const auto& part : parts_of_run(even_)) {
      for (const Block& block : part) {
        if (block.kind == BlockKind::embedding) continue;
        ends |= !is_of_layer(block.kind);
        add(ends ? blocks.back() : blocks.emplace_back(), kinds[static_cast<std::size_t>(block.kind)]);
      }
    }
    add(blocks.front(), kinds[static_cast<std::size_t>(BlockKind::embedding)]);
    return blocks;
  }

 private:
  const schedules::Plan& plan_;
  std::vector<double> slowness_;
  Profile even_;
};

}  // namespace

std::vector<double> slowness_of_stages(const Profile& measured) {
  const BlockSecondsOfKinds kinds = measured_blocks(measured);
  const auto parts = parts_of_run(measured);
  const schedules::Placement placement = measured.placement();
  std::vector<double> took(measured.stages.size()), expected(measured.stages.size());
  for (int v = 0; v < placement.virtual_stages(); ++v) {
    const auto at = placement.at(v);
    const auto stage = static_cast<std::size_t>(at.stage);
    took[stage] += seconds_of(measured.stages[stage].chunks[static_cast<std::size_t>(at.chunk)]);
    for (const Block& block : parts[static_cast<std::size_t>(v)])
      expected[stage] += seconds_of(kinds[static_cast<std::size_t>(block.kind)]);
  }
  for (std::size_t stage = 0; stage < took.size(); ++stage) took[stage] /= expected[stage];
  const double fastest = *std::min_element(took.begin(), took.end());
  for (double& slowness : took) slowness /= fastest;
  return took;
}

double retuned_seconds(const Profile& measured, const schedules::Plan& plan, const Cut& cut) {
  return RetunedStep(measured, plan).seconds(cut);
}

std::optional<RetunedCut> retune_cut(const Profile& measured, const schedules::Plan& plan, const CutLimits& limits) {
  const RetunedStep step(measured, plan);
  const Cut now = cut_of(parts_of_run(measured));
  CutProblem problem;
  problem.placement = plan.placement;
  problem.microbatches = plan.microbatches;
  problem.blocks = step.blocks();
  problem.step_seconds = [&](const Cut& cut) { return step.seconds(cut); };
  problem.bytes_over = [](const Cut&) { return 0.0; };
  CutBudget budget(limits);
  const FoundCut found = search_cut(problem, now, budget);
  const double before = step.seconds(now);
  if (!found.fits || found.cut == now || found.seconds >= before) return {};
  return RetunedCut{found.cut, before, found.seconds};
}

}  // namespace pipetrain
