// Interprets the numbers that stages report at N: computes the loss and the gradient norm of a step from them.
#pragma once

#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "actors/training/rank/parallel_layout.hpp"
#include "actors/training/run/routed_layer.hpp"
#include "model/parameters/gradient_norm.hpp"
#include "ops/preference.hpp"

namespace pipetrain {

struct LossSums {
  double own = 0;      // of the model's prediction
  double further = 0;  // of the further one, without its weight
};

// A stage's result consists of its ranks' reports, in rank order. In training, a rank reports the loss sums of its
// microbatches if it holds the head, then the sums of squares of the gradients that it counts (counted_parts()), then the
// statistics of its routed blocks (RouteBackwardArgs). In an
// evaluation, a rank with the head reports, for a model that classifies, the scores of each sample of its replica in
// the classes that the rank has, and then the loss sums. Immutable: made from the layout.
class StepResults {
 public:
  StepResults(const ParallelLayout& layout, const TrainJob& job);

  // results: of all stages, replica-major. Adds the losses of all microbatches to `sums`, in the order of their samples;
  // losses of a sequence's parts are added in rank order.
  void add_losses(const std::vector<StageResult>& results, schedules::StepKind kind, LossSums& sums) const;
  // For a loss of preferences: returns the sums of each sequence of the global batch, in order.
  std::vector<SequenceSums> sequence_sums(const std::vector<StageResult>& results, schedules::StepKind kind) const;
  // In an evaluation of a model that classifies: returns the class with the highest score of a replica's sample, the
  // first if equal. replica: see data_replica().
  std::int64_t class_said(const std::vector<StageResult>& results, int replica, std::int64_t sample) const;
  // Global L2 norm. Replicas that divide the sums of gradients each report their own part; otherwise all hold the same
  // after R, and the first replica's stages report it.
  double grad_norm(const std::vector<StageResult>& results) const;
  // Returns the statistics of each routed layer over the step, by layer: sums over replicas and parts of sequences, in rank
  // order.
  std::vector<RoutedLayer> routed_layers(const std::vector<StageResult>& results) const;

 private:
  struct Rank {
    int tp = 0, ep = 0;
    std::size_t pieces = 0;                                // microbatches, or slices of them, if it holds the head
    std::size_t losses = 0, samples = 0, own_classes = 0;  // own_classes: 0 unless the job evaluates a model that classifies
    std::size_t scores() const { return samples * own_classes; }
    ParameterLayout parameters;
    std::vector<CountedPart> counted;
    std::vector<std::int64_t> routed;  // the layers of its routed blocks, in the order of its report
    std::size_t router_numbers = 0;    // that each of these blocks reports
    std::size_t statistics() const { return routed.size() * router_numbers; }
  };
  // Returns where the losses of each part of sequences begin in a stage's result, for the ranks with this part of the experts.
  static std::vector<std::size_t> first_losses(const std::vector<Rank>& ranks, int ep, schedules::StepKind kind);
  // Returns a sample's scores in the classes that the stage has; ep: the part of the experts of the ranks that have the sample.
  static std::vector<double> scores_of(const std::vector<Rank>& ranks, int ep, const StageResult& result, std::int64_t sample);

  int slices_;                             // of each microbatch
  bool further_;                           // microbatches report two losses
  Mesh mesh_;                              // of stages, in the order of results
  int experts_;                            // parts that the experts are divided into
  std::vector<std::vector<Rank>> stages_;  // of the replicas whose reports count in the norm, replica-major
};

}  // namespace pipetrain
