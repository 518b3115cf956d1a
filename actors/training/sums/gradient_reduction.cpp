#include "actors/training/sums/gradient_reduction.hpp"

#include <algorithm>
#include <utility>

namespace pipetrain {

SumOverReplicas sum_for_all(std::shared_ptr<Group> replicas) {
  return [replicas = std::move(replicas)](Stream& stream, const Tensor& grads) {
    replicas->all_reduce(stream, grads, Reduction::sum);
  };
}

GradientReduction::GradientReduction(Device& device, SumOverReplicas sum, std::shared_ptr<Stream> transfer)
    : sum_(std::move(sum)), stream_(std::move(transfer)), final_(device.make_event()), summed_(device.make_event()) {}

void GradientReduction::start(Stream& compute, const Tensor& grads) {
  compute.record(*final_);
  stream_->wait(*final_);
  reduce(grads);
  started_.push_back(grads);
}

void GradientReduction::finish(Stream& compute, const Tensor& grads) {
  compute.record(*final_);
  stream_->wait(*final_);
  // Sums the gaps between the started parts, in the arena's order. Parts of other chunks may have been started too.
  std::sort(started_.begin(), started_.end(), [](const Tensor& a, const Tensor& b) { return a.data < b.data; });
  std::int64_t reached = 0;
  std::erase_if(started_, [&](const Tensor& part) {
    const std::int64_t begin = part.as<float>() - grads.as<float>();
    if (begin < 0 || begin >= grads.rows()) return false;
    reduce(grads.row_range(reached, begin));
    reached = begin + part.elements();
    return true;
  });
  reduce(grads.row_range(reached, grads.rows()));
  stream_->record(*summed_);
  compute.wait(*summed_);
}

void GradientReduction::reduce(const Tensor& grads) {
  if (grads.elements() > 0) sum_(*stream_, grads.reshaped({grads.elements()}));
}

}  // namespace pipetrain
