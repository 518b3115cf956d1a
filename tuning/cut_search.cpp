#include "tuning/cut_search.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace pipetrain {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

// Sums of the seconds of the first n blocks.
struct Prefixes {
  std::vector<double> forward{0}, input_grad{0}, all{0};

  explicit Prefixes(const std::vector<BlockSeconds>& blocks) {
    for (const BlockSeconds& block : blocks) {
      forward.push_back(forward.back() + block.forward);
      input_grad.push_back(input_grad.back() + block.input_grad);
      all.push_back(all.back() + block.forward + block.input_grad + block.weight_grad);
    }
  }
  std::size_t blocks() const { return all.size() - 1; }
};

struct MinMax {
  double value = never;
  Cut cut;
};

// Returns the cut into `parts` whose costliest part is cheapest. cost: of the blocks [begin, end).
template <class Cost>
MinMax min_max_cut(std::size_t parts, std::size_t blocks, const Cost& cost) {
  std::vector<double> best(blocks + 1, never);  // of the first blocks in this many parts
  best[0] = 0;
  std::vector<std::vector<std::size_t>> begins(parts, std::vector<std::size_t>(blocks + 1, 0));
  for (std::size_t part = 0; part < parts; ++part) {
    std::vector<double> next(blocks + 1, never);
    for (std::size_t end = part + 1; end <= blocks; ++end)
      for (std::size_t begin = part; begin < end; ++begin)
        if (const double most = std::max(best[begin], cost(begin, end)); most < next[end])
          next[end] = most, begins[part][end] = begin;
    best = std::move(next);
  }
  MinMax result{best[blocks], Cut(parts, 0)};
  std::size_t end = blocks;
  for (std::size_t part = parts; part-- > 0;) {
    const std::size_t begin = begins[part][end];
    result.cut[part] = static_cast<std::int64_t>(end - begin);
    end = begin;
  }
  return result;
}

class Descent {
 public:
  Descent(const CutProblem& problem, CutBudget& budget) : problem_(problem), budget_(budget), sums_(problem.blocks) {}

  void from(const Cut& start) {
    if (!budget_.take()) return;
    here_ = start;
    over_ = problem_.bytes_over(start);
    seconds_ = over_ > 0 ? never : problem_.step_seconds(start);
    note_best();
    while (!budget_.is_spent() && (moves(1) || moves(2))) note_best();
  }

  const FoundCut& best() const { return best_; }

 private:
  void note_best() {
    if (over_ > 0 || (best_.fits && best_.seconds <= seconds_)) return;
    best_ = {here_, seconds_, true};
  }

  std::vector<double> stage_work(const Cut& cut) const {
    std::vector<double> work(static_cast<std::size_t>(problem_.placement.stages()), 0);
    std::size_t at = 0;
    for (std::size_t v = 0; v < cut.size(); ++v) {
      const std::size_t end = at + static_cast<std::size_t>(cut[v]);
      work[static_cast<std::size_t>(problem_.placement.at(static_cast<int>(v)).stage)] += sums_.all[end] - sums_.all[at];
      at = end;
    }
    return work;
  }

  double bound_of(const Cut& cut) const {
    const auto work = stage_work(cut);
    return static_cast<double>(problem_.microbatches) * *std::max_element(work.begin(), work.end());
  }

  // Returns the virtual stages, those of the busiest stages first.
  std::vector<std::size_t> by_work() const {
    const auto work = stage_work(here_);
    std::vector<std::size_t> order(here_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto of = [&](std::size_t v) {
      return work[static_cast<std::size_t>(problem_.placement.at(static_cast<int>(v)).stage)];
    };
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return of(a) > of(b); });
    return order;
  }

  // Makes the first move of this many blocks that helps; returns false if none does.
  bool moves(std::int64_t blocks) {
    const auto order = by_work();
    for (const std::size_t from : order)
      for (auto to = order.rbegin(); to != order.rend(); ++to) {
        if (*to == from || here_[from] <= blocks) continue;
        Cut next = here_;
        next[from] -= blocks;
        next[*to] += blocks;
        if (is_better(next)) return true;
        if (budget_.is_spent()) return false;
      }
    return false;
  }

  // If so, continues from there.
  bool is_better(const Cut& next) {
    if (over_ > 0) {
      if (!budget_.take()) return false;
      const double over = problem_.bytes_over(next);
      if (over >= over_) return false;
      return go_to(next, over, over > 0 ? never : problem_.step_seconds(next));
    }
    constexpr double rounding = 1 - 1e-9;
    if (bound_of(next) >= seconds_ * rounding) return false;
    const auto known = known_.find(next);
    if (known == known_.end() && !budget_.take()) return false;
    const double seconds =
        known == known_.end() ? known_.emplace(next, problem_.step_seconds(next)).first->second : known->second;
    return seconds < seconds_ * rounding && problem_.bytes_over(next) <= 0 && go_to(next, 0, seconds);
  }

  bool go_to(const Cut& next, double over, double seconds) {
    here_ = next;
    over_ = over;
    seconds_ = seconds;
    return true;
  }

  const CutProblem& problem_;
  CutBudget& budget_;
  Prefixes sums_;
  Cut here_;
  double over_ = 0, seconds_ = never;
  std::map<Cut, double> known_;  // a step's seconds by cut
  FoundCut best_;
};

}  // namespace

bool CutBudget::take() {
  const std::chrono::duration<double> past = std::chrono::steady_clock::now() - begin_;
  if (taken_ >= limits_.cuts || past.count() >= limits_.seconds) spent_ = true;
  if (!spent_) ++taken_;
  return !spent_;
}

FoundCut search_cut(const CutProblem& problem, const Cut& start, CutBudget& budget) {
  Descent descent(problem, budget);
  descent.from(start);
  const Prefixes sums(problem.blocks);
  const auto work = [&](std::size_t begin, std::size_t end) { return sums.all[end] - sums.all[begin]; };
  const Cut level = min_max_cut(start.size(), sums.blocks(), work).cut;
  if (level != start) descent.from(level);
  return descent.best();
}

double cut_bound(const CutProblem& problem) {
  const Prefixes sums(problem.blocks);
  const auto steps = static_cast<double>(problem.microbatches);
  if (problem.placement.chunks() > 1) return steps * sums.all.back() / problem.placement.stages();
  const auto least = [&](std::size_t begin, std::size_t end) {
    const double forward = sums.forward[end] - sums.forward[begin], input = sums.input_grad[end] - sums.input_grad[begin];
    return sums.forward[begin] +
           std::max(steps * (sums.all[end] - sums.all[begin]), steps * (forward + input) + sums.input_grad[begin]);
  };
  return min_max_cut(static_cast<std::size_t>(problem.placement.stages()), sums.blocks(), least).value;
}

}  // namespace pipetrain
