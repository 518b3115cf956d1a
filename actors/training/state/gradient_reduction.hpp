// Sums a rank's gradients over the data-parallel replicas beside the backward: each matrix's gradient is on its way as soon as
// the step's last microbatch has been added to it. The sums do not depend on when or how they are cut. Not thread-safe: used by
// the rank's worker only.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/device.hpp"
#include "core/process_group.hpp"

namespace pipetrain {

// Enqueues the sum over the replicas of a part [n] of the gradient arena.
using SumOverReplicas = std::function<void(Stream& stream, const Tensor& grads)>;
// All replicas get all of it.
SumOverReplicas sum_for_all(std::shared_ptr<Group> replicas);

class GradientReduction {
 public:
  // sum: over the same stage and rank of every replica. All of them must make the same calls in the same order.
  GradientReduction(Device& device, SumOverReplicas sum, const std::string& name);

  // Before a step's first action.
  void begin_step() { started_.clear(); }
  // `grads`, a part of the gradient arena, has its final value once what `compute` holds so far has run.
  void start(Stream& compute, const Tensor& grads);
  // `grads` [n]. Sums what of it has not been started; what `compute` holds from now on sees all sums.
  void finish(Stream& compute, const Tensor& grads);

  // Carries the sums, and whatever else goes between replicas.
  Stream& stream() { return *stream_; }

 private:
  SumOverReplicas sum_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Event> final_, summed_;
  std::vector<Tensor> started_;

  void reduce(const Tensor& grads);
};

}  // namespace pipetrain
