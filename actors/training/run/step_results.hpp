// What the numbers that stages report at N mean, and what they come to: the loss and the gradient norm of a step.
#pragma once

#include <string>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "actors/training/rank/parallel_layout.hpp"
#include "model/parameters/gradient_norm.hpp"

namespace pipetrain {

// A stage's result is its ranks' reports, in rank order. In training a rank reports the loss sums of its microbatches, where it
// holds the head, and then the sums of squares of the gradients that it counts (counted_parts()). In an evaluation, where it
// holds the head, what each sample of its replica scores in the classes that it has, of a model that classifies, and then the
// loss sums. Pure: made from the layout.
class StepResults {
 public:
  StepResults(const ParallelLayout& layout, const TrainJob& job);

  // results: of all stages, replica-major. Adds the losses of all microbatches to `sum`, in the order of their samples, those
  // of a sequence's parts in the order of their ranks.
  void add_losses(const std::vector<StageResult>& results, schedules::StepKind kind, double& sum) const;
  // Of an evaluation of a model that classifies: in which class a replica's sample scores most, the first of several.
  std::int64_t class_said(const std::vector<StageResult>& results, int replica, std::int64_t sample) const;
  // Global L2 norm. Replicas that divide their gradients' sums each report their own; else all hold the same after R, and the
  // first one's stages report it.
  double grad_norm(const std::vector<StageResult>& results) const;

 private:
  struct Rank {
    int tp = 0;
    std::size_t losses = 0, samples = 0, own_classes = 0;  // own_classes: 0 unless the job evaluates a model that classifies
    std::size_t scores() const { return samples * own_classes; }
    ParameterLayout parameters;
    std::vector<CountedPart> counted;
  };
  // Where the losses of each part of sequences begin among a stage's numbers.
  static std::vector<std::size_t> first_losses(const std::vector<Rank>& ranks, schedules::StepKind kind);
  // Of a sample in the classes that the stage has.
  static std::vector<double> scores_of(const std::vector<Rank>& ranks, const StageResult& result, std::int64_t sample);

  Mesh mesh_;                              // of stages, as results are ordered
  std::vector<std::vector<Rank>> stages_;  // of the replicas that count something in the norm, replica-major
};

}  // namespace pipetrain
