// Finds the cut of a model with which one schedule ends a step first: boundaries between virtual stages move, block by
// block, as long as a simulation shows an improvement. The joint search of cut, placement and order is that of AdaPtis
// (arXiv 2509.23722).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "model/config/cut.hpp"
#include "schedules/plan/plan.hpp"

namespace pipetrain {

struct CutLimits {
  double seconds = std::numeric_limits<double>::infinity();
  // Number of cuts to try; a search that this limit ends is reproducible.
  std::int64_t cuts = std::numeric_limits<std::int64_t>::max();
};

// The common limits of all searches of one request. The time counts from the construction.
class CutBudget {
 public:
  explicit CutBudget(const CutLimits& limits) : limits_(limits), begin_(std::chrono::steady_clock::now()) {}
  // Takes one cut from the budget; returns false where nothing is left.
  bool take();
  std::int64_t taken() const { return taken_; }
  bool is_spent() const { return spent_; }  // true once take() has returned false

 private:
  CutLimits limits_;
  std::chrono::steady_clock::time_point begin_;
  std::int64_t taken_ = 0;
  bool spent_ = false;
};

// A lower bound of the seconds that a block takes for one microbatch, in any place.
struct BlockSeconds {
  double forward = 0, input_grad = 0, weight_grad = 0;
};

struct CutProblem {
  schedules::Placement placement = schedules::Placement::looping(1, 1);
  std::int64_t microbatches = 1;
  // Attention and MLP blocks in order; the first includes the embedding's seconds, the last the head's.
  std::vector<BlockSeconds> blocks;
  std::function<double(const Cut&)> step_seconds;  // simulated
  std::function<double(const Cut&)> bytes_over;    // bytes that the fullest device lacks; 0: the cut fits
};

struct FoundCut {
  Cut cut;
  double seconds = 0;  // of a step
  bool fits = false;   // false: nothing that was tried fits, and `seconds` is unset
};

// Tries `start`, then moves blocks between every pair of parts, those of the busiest stages first, and accepts a shorter step
// or, while nothing fits, less missing memory; then the same from the cut whose costliest part is cheapest. Ends where no move
// helps or the budget is spent. Never worse than `start`. Deterministic, except with a limit in seconds.
FoundCut search_cut(const CutProblem& problem, const Cut& start, CutBudget& budget);

// No step of any cut and order on this placement ends earlier. With one chunk a stage: the minimum over all cuts, by
// dynamic programming, of the maximum over all stages of its work plus the shortest paths to its first forward and from
// its last input gradient; otherwise the stages' mean work.
double cut_bound(const CutProblem& problem);

}  // namespace pipetrain
