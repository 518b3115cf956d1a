// What the numbers that stages report at N mean, and what they come to: the loss and the gradient norm of a step.
#pragma once

#include <string>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "actors/training/parallel_layout.hpp"
#include "model/gradient_norm.hpp"

namespace pipetrain {

// A stage's result is its ranks' reports, in rank order. A rank reports the loss sums of its microbatches, where it holds the
// head, and then the sums of squares of the gradients that it counts (counted_parts()). Pure: made from the layout.
class StepResults {
 public:
  StepResults(const ParallelLayout& layout, const TrainJob& job);

  // results: of all stages, replica-major. Sum of all microbatches' losses.
  double loss_sum(const std::vector<StageResult>& results) const;
  // Global L2 norm. Replicas that divide their gradients' sums each report their own; else all hold the same after R, and the
  // first one's stages report it.
  double grad_norm(const std::vector<StageResult>& results) const;

 private:
  struct Rank {
    std::size_t losses = 0;
    ParameterLayout parameters;
    std::vector<CountedPart> counted;
  };
  Mesh mesh_;                              // of stages, as results are ordered
  int counting_replicas_ = 1;              // the first of them, that count something
  std::vector<std::vector<Rank>> stages_;  // of those, replica-major
};

}  // namespace pipetrain
