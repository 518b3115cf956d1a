// A group that can be switched off, so that a rank warms up alone with the shapes of its group.
#pragma once

#include <memory>

#include "core/process_group.hpp"

namespace pipetrain {

class QuietGroup : public Group, private PiecewiseTransfer {
 public:
  explicit QuietGroup(std::shared_ptr<Group> group) : group_(std::move(group)) {}

  void set_quiet(bool quiet) { quiet_ = quiet; }

  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  using Group::all_gather, Group::reduce_scatter;
  void all_gather(Stream& stream, const Tensor& shard, const Tensor& full, const RowSplit& rows) override {
    if (!quiet_) group_->all_gather(stream, shard, full, rows);
  }
  void reduce_scatter(Stream& stream, const Tensor& full, const Tensor& shard, const RowSplit& rows) override {
    if (!quiet_) group_->reduce_scatter(stream, full, shard, rows);
  }
  void all_reduce(Stream& stream, const Tensor& tensor, Reduction reduction) override {
    if (!quiet_) group_->all_reduce(stream, tensor, reduction);
  }
  void shift(Stream& stream, const Tensor& source, const Tensor& target) override {
    if (!quiet_) group_->shift(stream, source, target);
  }
  void all_to_all(Stream& stream, const RowExchange& exchange) override {
    quiet_ ? stream.zero(exchange.received) : group_->all_to_all(stream, exchange);
  }
  PiecewiseTransfer* in_pieces() override { return group_->in_pieces() == nullptr ? nullptr : this; }
  void abort(std::exception_ptr cause) override { group_->abort(std::move(cause)); }

 private:
  void gather(Stream& stream, const Tensor& shard, const Tensor& full, const RowSplit& rows, const Work& use,
              const std::function<void()>& meanwhile) override {
    if (!quiet_) return group_->in_pieces()->gather(stream, shard, full, rows, use, meanwhile);
    rehearse(rows, use);
    if (meanwhile) meanwhile();
  }
  void exchange(Stream& stream, const Tensor& full, const Tensor& received, const Work& make,
                const std::function<void()>& meanwhile) override {
    if (!quiet_) return group_->in_pieces()->exchange(stream, full, received, make, meanwhile);
    rehearse(RowSplit(full.rows(), size()), make);
    if (meanwhile) meanwhile();
  }
  void wait_until_idle() noexcept override { group_->in_pieces()->wait_until_idle(); }
  void rehearse(const RowSplit& rows, const Work& work) const {
    for (int rank = 0; rank < size(); ++rank) work(rows.begin(rank), rows.end(rank));
  }

  std::shared_ptr<Group> group_;
  bool quiet_ = false;
};

}  // namespace pipetrain
