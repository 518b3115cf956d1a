// The numbers that one rank reports at N: what its forwards write of losses and scores and the state of gradients, on the
// device, and their copy on the host.
#pragma once

#include <cstdint>

#include "actors/engine/stage_compute.hpp"
#include "actors/training/rank/rank_setup.hpp"
#include "core/buffer.hpp"

namespace pipetrain {

// In training the numbers are the loss sum of each microbatch, where the rank holds the head, and then the sums of squares of
// what it counts in the norm. In an evaluation they are, where the rank holds the head of a model that classifies, what each
// sample scores in the rank's own classes, and then the loss sums. StepResults reads them. Used by the rank's worker, but for
// add_to().
class RankReports {
 public:
  // The setup outlives this. square_sums: how many the rank has. Throws Error(out_of_memory).
  RankReports(const RankSetup& setup, const TensorParallel& tp, std::size_t square_sums);

  // Sets where the head's forward on this microbatch writes its loss and, in an evaluation, its scores.
  void add_to(ForwardArgs& forward, const schedules::Action& action, const StepInfo& step) const;
  const Tensor& square_sums() const { return square_sums_; }  // [square_sums] f64

  // Enqueues the copy of what a step of this kind reports.
  void copy(Stream& stream, const StepInfo& step);
  // Adds what the last copy has brought, once it has run. On any thread.
  void add_to(StageResult& result) const;

 private:
  std::int64_t batch_;
  Buffer memory_, host_memory_;
  Tensor all_;                            // f64, on the device: the following, one behind the other
  Tensor scores_, losses_, square_sums_;  // scores: [samples of a step, own classes], of evaluations
  std::int64_t begin_ = 0, end_ = 0;      // of all_, what was copied last
};

}  // namespace pipetrain
