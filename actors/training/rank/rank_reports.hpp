// The numbers that one rank reports at N: losses and scores of its forwards, sums of squares of its gradients and statistics of
// its routers, on the device, and their copy on the host.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "actors/training/rank/rank_setup.hpp"
#include "core/buffer.hpp"

namespace pipetrain {

// Returns how many numbers the head's forward of a microbatch, or of a slice of it, reports as its loss.
std::int64_t losses_of_microbatch(const ModelConfig& config, std::int64_t batch);

// In training the numbers are the loss sum of each microbatch (with preferences, of each of its sequences: SequenceSums; with a
// further prediction, its sum after the model's own), if the rank holds the head, then the sums of squares that it counts in
// the norm, then the statistics of each of its routed blocks (RouteBackwardArgs) over the step. In an
// evaluation, for a rank that holds the head of a model that classifies, they are the scores of each sample in the rank's own
// classes, and then the loss sums. StepResults reads them. Used by the rank's worker, except add_to(StageResult&).
class RankReports {
 public:
  // The setup must outlive this. square_sums: the rank's number of them. Throws Error(out_of_memory).
  RankReports(const RankSetup& setup, const TensorParallel& tp, std::size_t square_sums);

  // Enqueues what a step begins with.
  void begin_step(Stream& stream, const StepInfo& step);
  // Sets where the backward of this chunk adds its routers' statistics.
  void add_to(BackwardArgs& backward, int chunk) const;
  // Sets where the head's forward on this microbatch writes its loss and, in an evaluation, its scores.
  void add_to(ForwardArgs& forward, const schedules::Action& action, const StepInfo& step) const;
  const Tensor& square_sums() const { return square_sums_; }  // [square_sums] f64

  // Enqueues the copy of the numbers that a step of this kind reports.
  void copy(Stream& stream, const StepInfo& step);
  // Adds the numbers of the last copy, once it has run. On any thread.
  void add_to(StageResult& result) const;

 private:
  std::int64_t batch_;
  bool prefers_;                    // the losses are of preferences
  std::int64_t microbatch_losses_;  // numbers of a microbatch
  Buffer memory_, host_memory_;
  Tensor all_;                            // f64, on the device: scores, losses, square sums and statistics, one after the other
  Tensor scores_, losses_, square_sums_;  // scores: of an evaluation, [samples of a step, own classes]
  std::vector<Tensor> statistics_;        // by chunk: [its routed blocks, router_statistics()]
  std::int64_t begin_ = 0, end_ = 0;      // the range of all_ that was copied last
};

}  // namespace pipetrain
