// Collectives between the ranks of a group, as one rank sees them. comm/ implements it.
//
// Every member must enqueue the same collectives in the same order. All calls only enqueue; inputs must be ready in the
// stream's order, outputs are. Over processes, GPU memory that a member's collectives touch must be allocated before its first
// one, and outlive the last. Sums add in rank order whatever the transport, so that results are reproducible to the bit.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <utility>
#include <vector>

#include "core/stream.hpp"
#include "core/tensor.hpp"

namespace pipetrain {

// How `total` rows are cut over ranks: contiguous, in rank order; evenly (the first total % ranks one longer), or where it is
// told to.
class RowSplit {
 public:
  RowSplit(std::int64_t total, int ranks) : total_(total), ranks_(ranks) {}
  // cuts: where each rank's rows begin, not falling, from 0 on, and at last the total.
  explicit RowSplit(std::vector<std::int64_t> cuts)
      : total_(cuts.back()), ranks_(static_cast<int>(cuts.size()) - 1), cuts_(std::move(cuts)) {}
  std::int64_t total() const noexcept { return total_; }
  int ranks() const noexcept { return ranks_; }
  std::int64_t begin(int rank) const noexcept {
    if (!cuts_.empty()) return cuts_[static_cast<std::size_t>(rank)];
    const std::int64_t base = total_ / ranks_, extra = total_ % ranks_;
    return base * rank + (rank < extra ? rank : extra);
  }
  std::int64_t end(int rank) const noexcept { return begin(rank + 1); }
  std::int64_t count(int rank) const noexcept { return end(rank) - begin(rank); }

 private:
  std::int64_t total_;
  int ranks_;
  std::vector<std::int64_t> cuts_;  // empty: even
};

enum class Reduction { sum, max };

// Collectives that move a tensor in pieces, each rank's rows (RowSplit) being one, so that matrix products work on some pieces
// while others are on their way. As with Group's, every member must call the same in the same order; a call may hold up the
// host until the other members have made theirs.
class PiecewiseTransfer {
 public:
  // Enqueues on the call's stream what reads or writes the rows [begin, end) of the full tensor.
  using Work = std::function<void(std::int64_t begin, std::int64_t end)>;

  virtual ~PiecewiseTransfer() = default;
  PiecewiseTransfer(const PiecewiseTransfer&) = delete;
  PiecewiseTransfer& operator=(const PiecewiseTransfer&) = delete;

  // Group::all_gather; `use` is called for each piece and may read its rows, but this rank's own rows only from `shard`.
  // `meanwhile`, if any, is called once, when this rank's shard is on its way and before the others' pieces are waited for: it
  // enqueues work that has nothing to do with either tensor. Not where the transfer fails before. In it one other call, of
  // either kind, may begin that ends after this one, on another host thread that takes turns with this one.
  virtual void gather(Stream& stream, const Tensor& shard, const Tensor& full, const RowSplit& rows, const Work& use,
                      const std::function<void()>& meanwhile) = 0;
  // Rows are cut evenly: received [size, count(rank), ...] = this rank's rows of every member's `full` [total, ...], in rank
  // order, but for its own, which stay where they are. `make` is called for each piece and writes its rows; `meanwhile` as in
  // gather().
  virtual void exchange(Stream& stream, const Tensor& full, const Tensor& received, const Work& make,
                        const std::function<void()>& meanwhile) = 0;

  // Blocks until this rank moves nothing any more. Call it before any member's memory is freed, also after a failure: streams
  // then no longer wait for what still travels.
  virtual void wait_until_idle() noexcept = 0;

 protected:
  PiecewiseTransfer() = default;
};

class Group {
 public:
  virtual ~Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // full [total, ...] = the members' shards [count(rank), ...] in rank order; rows: the same in all members. A shard may be its
  // own place in `full`.
  virtual void all_gather(Stream& stream, const Tensor& shard, const Tensor& full, const RowSplit& rows) = 0;
  void all_gather(Stream& stream, const Tensor& shard, const Tensor& full) {
    all_gather(stream, shard, full, RowSplit(full.rows(), size()));
  }
  // shard [count(rank), ...] = the rank-ordered sum of every member's rows of `full` [total, ...] that this rank owns. It may
  // be their place in `full`.
  virtual void reduce_scatter(Stream& stream, const Tensor& full, const Tensor& shard, const RowSplit& rows) = 0;
  void reduce_scatter(Stream& stream, const Tensor& full, const Tensor& shard) {
    reduce_scatter(stream, full, shard, RowSplit(full.rows(), size()));
  }
  // tensor = reduction over the members, element by element, in rank order; f32 and f64.
  virtual void all_reduce(Stream& stream, const Tensor& tensor, Reduction reduction) = 0;

  // target = `source` of the member before this one; of the last one, for the first. Of one size in all members, and apart.
  // A call may hold up the host until the other members have made theirs.
  virtual void shift(Stream& stream, const Tensor& source, const Tensor& target) = 0;

  // How this group moves tensors in pieces; null where that would gain nothing.
  virtual PiecewiseTransfer* in_pieces() { return nullptr; }

  // Ends every member's waiting and later collectives with this cause: their streams fail. Thread-safe.
  virtual void abort(std::exception_ptr cause) = 0;

 protected:
  Group() = default;
};

}  // namespace pipetrain
