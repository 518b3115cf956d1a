// Sums a rank's gradients over the data-parallel replicas while the backward runs: each matrix's gradient is sent as
// soon as the step's last microbatch has been added to it. The sums do not depend on when they start or how they are
// divided. Not thread-safe: used by the rank's worker only.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/device.hpp"
#include "core/process_group.hpp"

namespace pipetrain {

// Enqueues the sum over the replicas of a part [n] of the gradient arena.
using SumOverReplicas = std::function<void(Stream& stream, const Tensor& grads)>;
// Returns a sum that gives all elements to every replica.
SumOverReplicas sum_for_all(std::shared_ptr<Group> replicas);

class GradientReduction {
 public:
  // sum: over the same stage and rank of every replica. All of them must make the same calls in the same order, also of other
  // reductions that use this stream.
  GradientReduction(Device& device, SumOverReplicas sum, std::shared_ptr<Stream> transfer);
  ~GradientReduction() { finish_before_freeing(*stream_); }
  GradientReduction(const GradientReduction&) = delete;
  GradientReduction& operator=(const GradientReduction&) = delete;

  // Before a step's first action.
  void begin_step() { started_.clear(); }
  // `grads`, a part of the gradient arena, has its final value once the present work of `compute` has run.
  void start(Stream& compute, const Tensor& grads);
  // `grads` [n]. Sums the parts of it that have not been started; later work on `compute` sees all sums.
  void finish(Stream& compute, const Tensor& grads);

  // Returns the stream of the sums and of all other transfers between replicas.
  Stream& stream() { return *stream_; }

 private:
  SumOverReplicas sum_;
  std::shared_ptr<Stream> stream_;
  std::unique_ptr<Event> final_, summed_;
  std::vector<Tensor> started_;

  void reduce(const Tensor& grads);
};

}  // namespace pipetrain
