#include "model/context/ring_exchange.hpp"

#include <utility>

namespace pipetrain {

RingExchange::RingExchange(Device& device, std::shared_ptr<Group> group, const std::string& name)
    : group_(std::move(group)), stream_(device.make_stream(name)), there_(device.make_event()), passed_(device.make_event()) {}

void RingExchange::start(Stream& compute, const Tensor& source, const Tensor& target) {
  compute.record(*there_);
  stream_->wait(*there_);
  group_->shift(*stream_, source, target);
}

void RingExchange::sum(Ops& ops, const Tensor& tensor, Tensor passed, Tensor received) {
  ops.copy(tensor, passed);
  for (int other = 1; other < group_->size(); ++other) {
    start(ops.stream(), passed, received);
    finish(ops.stream());
    ops.add(tensor, received);
    std::swap(passed, received);
  }
}

void RingExchange::all_reduce(Stream& compute, const Tensor& tensor) {
  compute.record(*there_);
  stream_->wait(*there_);
  group_->all_reduce(*stream_, tensor, Reduction::sum);
  finish(compute);
}

void RingExchange::finish(Stream& compute) {
  stream_->record(*passed_);
  compute.wait(*passed_);
}

}  // namespace pipetrain
