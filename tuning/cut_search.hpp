// Which cut of a model ends a step first with one schedule: boundaries between virtual stages move, block by block, as long as
// a simulation says that it helps. The joint search of cut, placement and order is that of AdaPtis (arXiv 2509.23722).
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
  std::int64_t cuts = std::numeric_limits<std::int64_t>::max();  // looked at; where this ends a search, it finds the same again
};

// What the searches of one request may take together. The time counts from its making.
class CutBudget {
 public:
  explicit CutBudget(const CutLimits& limits) : limits_(limits), begin_(std::chrono::steady_clock::now()) {}
  // Takes one cut's worth; false where nothing is left.
  bool take();
  std::int64_t taken() const { return taken_; }
  bool is_spent() const { return spent_; }  // whether take() ever was false

 private:
  CutLimits limits_;
  std::chrono::steady_clock::time_point begin_;
  std::int64_t taken_ = 0;
  bool spent_ = false;
};

// Seconds that a block takes of one microbatch, wherever it is, at least.
struct BlockSeconds {
  double forward = 0, input_grad = 0, weight_grad = 0;
};

struct CutProblem {
  schedules::Placement placement = schedules::Placement::looping(1, 1);
  std::int64_t microbatches = 1;
  std::vector<BlockSeconds> blocks;  // attention and MLP, in order; the embedding's with the first, the head's with the last
  std::function<double(const Cut&)> step_seconds;  // simulated
  std::function<double(const Cut&)> bytes_over;    // what the fullest device lacks; 0: the cut fits
};

struct FoundCut {
  Cut cut;
  double seconds = 0;  // of a step
  bool fits = false;   // else nothing that was tried does, and there are no seconds
};

// Tries `start`, then moves blocks from every part to every other, those of the busiest stages first, and takes what ends the
// step sooner, or, while nothing fits, what lacks less memory; the same from the cut whose costliest part is cheapest. Ends
// where no move helps or the budget is spent. Never worse than `start`. Deterministic, but for a limit in seconds.
FoundCut search_cut(const CutProblem& problem, const Cut& start, CutBudget& budget);

// No step of any cut and order on this placement ends earlier. With one chunk a stage: the least over all cuts, by dynamic
// programming, of the most over all stages of its work and the shortest ways to its first forward and from its last input
// gradient; else the stages' mean work.
double cut_bound(const CutProblem& problem);

}  // namespace pipetrain
