#include "schedules/plan/activation_offload.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "schedules/plan/braids.hpp"
#include "schedules/plan/residents.hpp"

namespace pipetrain::schedules {

namespace {

// The activations of one microbatch of a chunk.
struct Kept {
  std::size_t forward = 0, backward = 0;  // positions of F and B in the list
  int wait = 0;                           // units between the two
};

class StageMoves {
 public:
  StageMoves(const std::vector<Action>& list, int chunks, int microbatches)
      : list_(list), kept_(static_cast<std::size_t>(chunks), std::vector<Kept>(static_cast<std::size_t>(microbatches))) {
    int units = 0;
    for (std::size_t at = 0; at < list.size(); ++at) {
      begins_.push_back(units);
      units += units_of(list[at].kind);
      if (list[at].kind == ActionKind::forward) kept(list[at]).forward = at;
      if (gives_input_grad(list[at].kind)) kept(list[at]).backward = at;
    }
    for (auto& chunk : kept_)
      for (Kept& one : chunk) one.wait = begins_[one.backward] - begins_[one.forward] - units_of(ActionKind::forward);
  }

  // Chooses as many of the list's microbatches as are worthwhile and requested.
  std::vector<Kept> choose(double fraction) const {
    std::vector<std::vector<Kept>> worth;  // by chunk
    std::size_t all = 0;
    for (const auto& chunk : kept_) {
      auto& own = worth.emplace_back();
      std::copy_if(chunk.begin(), chunk.end(), std::back_inserter(own),
                   [](const Kept& one) { return one.wait > 2 * transfer_units; });
      all += chunk.size();
    }
    std::stable_sort(worth.begin(), worth.end(), [](const auto& a, const auto& b) { return mean_wait(a) > mean_wait(b); });
    auto wanted = static_cast<std::size_t>(std::floor(fraction * static_cast<double>(all) + 1e-9));
    std::vector<Kept> chosen;
    for (const auto& chunk : worth) {
      const std::size_t count = std::min(wanted, chunk.size());
      for (std::size_t i = 0; i < chunk.size(); ++i)
        if ((i + 1) * count / chunk.size() > i * count / chunk.size()) chosen.push_back(chunk[i]);
      wanted -= count;
    }
    return chosen;
  }

  std::vector<Action> with(std::vector<Kept> chosen) const {
    std::sort(chosen.begin(), chosen.end(), [](const Kept& a, const Kept& b) { return a.backward < b.backward; });
    std::vector<std::vector<Action>> before(list_.size()), after(list_.size());
    for (const Kept& one : chosen) {
      const Action& forward = list_[one.forward];
      after[one.forward].push_back({ActionKind::offload, forward.chunk, forward.microbatch});
      std::size_t at = one.backward;
      while (begins_[one.backward] - begins_[at] < transfer_units) --at;
      before[at].push_back({ActionKind::reload, forward.chunk, forward.microbatch});
    }
    std::vector<Action> moved;
    moved.reserve(list_.size() + 2 * chosen.size());
    for (std::size_t at = 0; at < list_.size(); ++at) {
      moved.insert(moved.end(), before[at].begin(), before[at].end());
      moved.push_back(list_[at]);
      moved.insert(moved.end(), after[at].begin(), after[at].end());
    }
    return moved;
  }

 private:
  Kept& kept(const Action& action) {
    return kept_[static_cast<std::size_t>(action.chunk)][static_cast<std::size_t>(action.microbatch)];
  }
  static double mean_wait(const std::vector<Kept>& chunk) {
    double sum = 0;
    for (const Kept& one : chunk) sum += one.wait;
    return chunk.empty() ? 0 : sum / static_cast<double>(chunk.size());
  }

  const std::vector<Action>& list_;
  std::vector<int> begins_;              // units before each position
  std::vector<std::vector<Kept>> kept_;  // [chunk][microbatch]
};

}  // namespace

bool moves_activations(const Plan& plan) {
  return std::any_of(plan.stages.begin(), plan.stages.end(), [](const auto& list) {
    return std::any_of(list.begin(), list.end(), [](const Action& action) { return is_move(action.kind); });
  });
}

Plan offload_activations(Plan plan, double fraction) {
  if (moves_activations(plan)) throw std::invalid_argument("the plan moves activations already");
  if (has_braids(plan))
    throw std::invalid_argument("plans with braids move no activations; use dualpipe-v, or plan without moves");
  if (plan.slices > 1) throw std::invalid_argument("slices stay on the device; pass whole microbatches, or plan without moves");
  bool moves = false;
  for (auto& list : plan.stages) {
    const StageMoves stage(list, plan.placement.chunks(), plan.microbatches);
    auto chosen = stage.choose(fraction);
    auto moved = stage.with(std::move(chosen));
    if (peak_in_flight(moved) >= peak_in_flight(list)) continue;
    moves = true;
    list = std::move(moved);
  }
  if (!moves)
    throw std::invalid_argument("in " + plan.schedule + " with " + std::to_string(plan.placement.stages()) + " stages and " +
                                std::to_string(plan.microbatches) +
                                " microbatches no activations wait long enough for their backward to free memory meanwhile; "
                                "take " +
                                (fraction < 1 ? "a larger fraction, " : "") +
                                "more microbatches, or a schedule that keeps more of them: gpipe, looped-bfs, interleaved");
  plan.ready_rule = ReadyRule::none;
  return plan;
}

}  // namespace pipetrain::schedules
