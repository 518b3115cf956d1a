#include "tuning/retuned_layout.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>

#include "actors/training/job/job_plan.hpp"
#include "actors/training/job/train_job.hpp"
#include "actors/training/records/profile_layout.hpp"
#include "core/error.hpp"
#include "model/config/block.hpp"
#include "model/config/hf_config_text.hpp"
#include "model/config/mode_names.hpp"
#include "model/parameters/parameters.hpp"
#include "schedules/builders/builders.hpp"
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

  // Returns the run's cut, or the one by cost where the plan has another number of parts.
  Cut first_cut() const {
    const int parts = plan_.placement.virtual_stages();
    if (parts == even_.placement().virtual_stages()) return cut_of(parts_of_run(even_));
    return cut_of(partition_blocks(even_.measured_model(), parts, even_.sequence, even_.settings.numerics));
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

  FoundCut search(const Cut& start, CutBudget& budget) const {
    CutProblem problem;
    problem.placement = plan_.placement;
    problem.microbatches = plan_.microbatches;
    problem.blocks = blocks();
    problem.step_seconds = [this](const Cut& cut) {
      try {
        return seconds(cut);
      } catch (const std::invalid_argument&) {  // a part has no measurable time
        return std::numeric_limits<double>::infinity();
      }
    };
    problem.bytes_over = [](const Cut&) { return 0.0; };
    return search_cut(problem, start, budget);
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
  CutBudget budget(limits);
  const Cut now = step.first_cut();
  const FoundCut found = step.search(now, budget);
  const double before = step.seconds(now);
  if (!found.fits || found.cut == now || found.seconds >= before) return {};
  return RetunedCut{found.cut, before, found.seconds};
}

double least_retuned_gain(std::vector<double> step_seconds) {
  constexpr double usual = 0.05;
  std::sort(step_seconds.begin(), step_seconds.end());
  const double spread = step_seconds.end()[-2] - step_seconds[1], median = step_seconds[step_seconds.size() / 2];
  return std::max(usual, spread / median);
}

namespace {

// A layout whose step is simulated with its first cut.
struct RetunedCandidate {
  RetunedLayout layout;
  Profile measured;  // with the layout's recomputation
  std::shared_ptr<const schedules::Plan> plan;
};

// Returns the modes that the run may take: its own, and those that recompute less.
std::vector<Recompute> lighter_modes(const TrainJob& job) {
  if (job.numerics.recompute_layers) return {job.numerics.recompute};
  std::vector<Recompute> modes;
  for (const Recompute mode : recompute_modes)
    if (mode <= job.numerics.recompute) modes.push_back(mode);
  return modes;
}

// Returns null where the schedule has no such plan.
std::shared_ptr<const schedules::Plan> plan_with(const TrainJob& job, const std::string& schedule, int chunks) {
  TrainJob other = job;
  other.plan.reset();
  other.layout.schedule = schedule;
  other.layout.chunks = chunks;
  try {
    return build_plan(other);
  } catch (const Error&) {
    return nullptr;
  }
}

using NamedPlan = std::pair<RetunedLayout, std::shared_ptr<const schedules::Plan>>;

// Returns the plans of all schedules by name that the run could take, its own plan first.
std::vector<NamedPlan> plans_for(const TrainJob& job) {
  std::vector<NamedPlan> plans{{{.schedule = job.layout.schedule, .chunks = job.layout.chunks}, job.plan}};
  if (job.layout.plan || job.layout.slices > 1 || job.offload.activations) return plans;
  constexpr int most_chunks = 4;
  for (const schedules::ScheduleInfo& info : schedules::all_schedules()) {
    const bool is_ordered = job.layout.order == schedules::Order::planned || info.has_ready_rule;
    if (info.uses_costs || info.braids || !is_ordered) continue;
    for (int chunks = info.default_chunks; chunks <= (info.chunks_can_vary ? most_chunks : info.default_chunks); ++chunks) {
      const std::string name(info.name);
      if (name == job.layout.schedule && chunks == job.layout.chunks) continue;
      if (auto plan = plan_with(job, name, chunks)) plans.push_back({{.schedule = name, .chunks = chunks}, std::move(plan)});
    }
  }
  return plans;
}

// Returns all candidates, the shortest simulated step first.
std::vector<RetunedCandidate> candidates_for(const Profile& measured, const TrainJob& job) {
  std::vector<RetunedCandidate> candidates;
  const std::vector<NamedPlan> plans = plans_for(job);
  for (const Recompute mode : lighter_modes(job)) {
    const Profile profile = mode == job.numerics.recompute ? measured : with_recompute(measured, mode);
    for (const auto& [named, plan] : plans) {
      RetunedCandidate candidate{named, profile, plan};
      candidate.layout.recompute = mode;
      try {
        const RetunedStep step(profile, *plan);
        candidate.layout.cut = step.first_cut();
        candidate.layout.seconds = step.seconds(candidate.layout.cut);
        candidates.push_back(std::move(candidate));
      } catch (const std::exception&) {  // the model has too few blocks for these chunks, or a part has no measurable time
        if (plan == job.plan) throw;
      }
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const auto& one, const auto& other) { return one.layout.seconds < other.layout.seconds; });
  return candidates;
}

}  // namespace

std::vector<RetunedLayout> retune_layout(const Profile& measured, const TrainJob& job, const CutLimits& limits) {
  constexpr std::size_t most_searched = 4;  // those that are fastest before their cuts are searched, and the present one
  const double now = retuned_seconds(measured, *job.plan, cut_of(parts_of_run(measured)));
  std::vector<RetunedCandidate> candidates = candidates_for(measured, job);
  std::vector<RetunedLayout> found;
  CutBudget budget(limits);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    RetunedCandidate& one = candidates[i];
    const bool is_present = one.plan == job.plan && one.layout.recompute == job.numerics.recompute;
    if (i < most_searched || is_present) {
      const FoundCut cut = RetunedStep(one.measured, *one.plan).search(one.layout.cut, budget);
      if (cut.fits) one.layout.cut = cut.cut, one.layout.seconds = cut.seconds;
    }
    if (one.layout.seconds < now) found.push_back(one.layout);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const RetunedLayout& one, const RetunedLayout& other) { return one.seconds < other.seconds; });
  return found;
}

}  // namespace pipetrain
