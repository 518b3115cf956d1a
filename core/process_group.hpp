// Collectives between the ranks of a group, as one rank sees them. comm/ implements it.
//
// Every member must enqueue the same collectives in the same order. All calls only enqueue; inputs must be ready in the
// stream's order, outputs are. Sums add in rank order whatever the transport, so that results are reproducible to the bit.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <vector>

#include "core/stream.hpp"
#include "core/tensor.hpp"

namespace pipetrain {

// How `total` rows are cut over ranks: contiguous, in rank order, the first total % ranks one longer.
class RowSplit {
 public:
  RowSplit(std::int64_t total, int ranks) : total_(total), ranks_(ranks) {}
  std::int64_t total() const noexcept { return total_; }
  int ranks() const noexcept { return ranks_; }
  std::int64_t begin(int rank) const noexcept {
    const std::int64_t base = total_ / ranks_, extra = total_ % ranks_;
    return base * rank + (rank < extra ? rank : extra);
  }
  std::int64_t end(int rank) const noexcept { return begin(rank + 1); }
  std::int64_t count(int rank) const noexcept { return end(rank) - begin(rank); }

 private:
  std::int64_t total_;
  int ranks_;
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
  virtual void gather(Stream& stream, const Tensor& shard, const Tensor& full, const Work& use) = 0;
  // received [size, count(rank), ...] = this rank's rows of every member's `full` [total, ...], in rank order, but for its own,
  // which stay where they are. `make` is called for each piece and writes its rows; `meanwhile`, if any, is called once and
  // enqueues work that has nothing to do with either tensor.
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

  // full [total, ...] = the members' shards [count(rank), ...] in rank order.
  virtual void all_gather(Stream& stream, const Tensor& shard, const Tensor& full) = 0;
  // shard [count(rank), ...] = the rank-ordered sum of every member's rows of `full` [total, ...] that this rank owns.
  virtual void reduce_scatter(Stream& stream, const Tensor& full, const Tensor& shard) = 0;
  // tensor = reduction over the members, element by element, in rank order; f32 and f64.
  virtual void all_reduce(Stream& stream, const Tensor& tensor, Reduction reduction) = 0;

  // Memory of this rank that other members will reach: a group of GPUs in several processes needs it before its first
  // collective. What they read or write of this rank (all_gather's `shard`, reduce_scatter's `full`, all_reduce's tensor) must
  // then lie in it. It must outlive the last collective. One piece a member; the others ignore it.
  virtual void share(const Tensor& memory) { static_cast<void>(memory); }

  // How this group moves tensors in pieces; null where that would gain nothing.
  virtual PiecewiseTransfer* in_pieces() { return nullptr; }

  // Ends every member's waiting and later collectives with this cause: their streams fail. Thread-safe.
  virtual void abort(std::exception_ptr cause) = 0;

 protected:
  Group() = default;
};

}  // namespace pipetrain
