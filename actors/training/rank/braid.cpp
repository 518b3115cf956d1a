#include "actors/training/rank/braid.hpp"

namespace pipetrain {

Braid::Braid(Device& device, const std::string& name) : stream_(device.make_stream(name)), turns_(name) {
  for (Events& events : events_) events = {device.make_event(), device.make_event()};
}

void Braid::overlap(Stream& stream, const std::function<void(Stream& on)>& collective) {
  const int own = turns_.running();
  if (own == Turns::none) return collective(stream);
  const Events& events = events_[static_cast<std::size_t>(own)];
  stream.record(*events.computed);
  stream_->wait(*events.computed);
  collective(*stream_);
  stream_->record(*events.arrived);
  turns_.pass();
  stream.wait(*events.arrived);
}

void BraidGroup::all_gather(Stream& stream, const Tensor& shard, const Tensor& full, const RowSplit& rows) {
  braid_.overlap(stream, [&](Stream& on) { group_.all_gather(on, shard, full, rows); });
}

void BraidGroup::reduce_scatter(Stream& stream, const Tensor& full, const Tensor& shard, const RowSplit& rows) {
  braid_.overlap(stream, [&](Stream& on) { group_.reduce_scatter(on, full, shard, rows); });
}

void BraidGroup::all_reduce(Stream& stream, const Tensor& tensor, Reduction reduction) {
  braid_.overlap(stream, [&](Stream& on) { group_.all_reduce(on, tensor, reduction); });
}

void BraidGroup::all_to_all(Stream& stream, const RowExchange& exchange) {
  braid_.overlap(stream, [&](Stream& on) { group_.all_to_all(on, exchange); });
}

std::function<void()> BraidGroup::and_pass(const std::function<void()>& meanwhile) {
  return [this, &meanwhile] {
    if (meanwhile) meanwhile();
    braid_.pass();
  };
}

void BraidGroup::gather(Stream& stream, const Tensor& shard, const Tensor& full, const RowSplit& rows, const Work& use,
                        const std::function<void()>& meanwhile) {
  group_.in_pieces()->gather(stream, shard, full, rows, use, and_pass(meanwhile));
}

void BraidGroup::exchange(Stream& stream, const Tensor& full, const Tensor& received, const Work& make,
                          const std::function<void()>& meanwhile) {
  group_.in_pieces()->exchange(stream, full, received, make, and_pass(meanwhile));
}

}  // namespace pipetrain
