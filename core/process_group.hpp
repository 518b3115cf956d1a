// Collectives between the ranks of a group, from the view of one rank. comm/ implements them.
//
// Every member must enqueue the same collectives in the same order. All calls only enqueue; inputs must be ready in the
// stream's order, and outputs then are. Over processes, GPU memory that a member's collectives use must be allocated before its
// first one, and outlive the last. Sums add in rank order on every transport, so that results are reproducible to the bit.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <utility>
#include <vector>

#include "core/stream.hpp"
#include "core/tensor.hpp"

namespace pipetrain {

// The division of `total` rows over ranks: contiguous, in rank order; even (the first total % ranks get one more), or
// at given cuts.
class RowSplit {
 public:
  RowSplit(std::int64_t total, int ranks) : total_(total), ranks_(ranks) {}
  // cuts: the first row of each rank, in ascending order from 0 on, then the total.
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

// Rows of tensors that the members of a group send each other. Only the devices know how many.
struct RowExchange {
  // The i-th row that is sent is the source's i-th, or the one that `order` [n] i32 names, if it has a shape. The i-th rows of
  // all sources go to the same member. A target has memory for all rows that may come.
  struct Rows {
    Tensor source, target;
    Tensor order = {};

    bool is_ordered() const { return order.shape.rank() > 0; }
  };
  std::vector<Rows> rows;
  Tensor offsets;   // [members + 1] i32: the rows [offsets[m], offsets[m + 1]) that are sent are for member m
  Tensor received;  // [members + 1] i32, output: the targets' rows [received[m], received[m + 1]) are from member m
  // The most rows that one member may have for another: the same in all members. Networks that must know a message's size in
  // advance carry so many.
  std::int64_t most = 0;
};

// Collectives that move a tensor in pieces (one per rank: its rows in RowSplit), so that matrix products compute on
// some pieces while others are in flight. As in Group, every member must make the same calls in the same order; a call
// may block the host until the other members have made theirs.
class PiecewiseTransfer {
 public:
  // Enqueues work on the call's stream that reads or writes the rows [begin, end) of the full tensor.
  using Work = std::function<void(std::int64_t begin, std::int64_t end)>;

  virtual ~PiecewiseTransfer() = default;
  PiecewiseTransfer(const PiecewiseTransfer&) = delete;
  PiecewiseTransfer& operator=(const PiecewiseTransfer&) = delete;

  // Group::all_gather; `use` is called for each piece and may read its rows, but this rank's own rows only from `shard`.
  // `meanwhile`, if any, is called once, after this rank's shard has been sent and before the wait for other pieces: it
  // enqueues work that uses neither tensor. It is not called where the transfer fails before. During it, another host thread
  // that alternates with this one may begin one other call of either kind, which ends after this one.
  virtual void gather(Stream& stream, const Tensor& shard, const Tensor& full, const RowSplit& rows, const Work& use,
                      const std::function<void()>& meanwhile) = 0;
  // Rows are divided evenly: received [size, count(rank), ...] = this rank's rows of every member's `full` [total,
  // ...], in rank order, except its own, which stay where they are. `make` is called for each piece and writes its
  // rows; `meanwhile` as in gather().
  virtual void exchange(Stream& stream, const Tensor& full, const Tensor& received, const Work& make,
                        const std::function<void()>& meanwhile) = 0;

  // Blocks until this rank moves nothing any more. Call it before any member's memory is freed, also after a failure,
  // when streams no longer wait for transfers in flight.
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

  // full [total, ...] = the members' shards [count(rank), ...] in rank order; rows: the same in all members. A shard
  // may be its own range of `full`.
  virtual void all_gather(Stream& stream, const Tensor& shard, const Tensor& full, const RowSplit& rows) = 0;
  void all_gather(Stream& stream, const Tensor& shard, const Tensor& full) {
    all_gather(stream, shard, full, RowSplit(full.rows(), size()));
  }
  // shard [count(rank), ...] = the rank-ordered sum of every member's rows of `full` [total, ...] that this rank owns.
  // It may be their range of `full`.
  virtual void reduce_scatter(Stream& stream, const Tensor& full, const Tensor& shard, const RowSplit& rows) = 0;
  void reduce_scatter(Stream& stream, const Tensor& full, const Tensor& shard) {
    reduce_scatter(stream, full, shard, RowSplit(full.rows(), size()));
  }
  // tensor = reduction over the members, element by element, in rank order; f32 and f64.
  virtual void all_reduce(Stream& stream, const Tensor& tensor, Reduction reduction) = 0;

  // target = `source` of the previous member; the first member gets the last one's. They have the same size in all
  // members, and do not overlap. A call may block the host until the other members have made theirs.
  virtual void shift(Stream& stream, const Tensor& source, const Tensor& target) = 0;

  // received [size x count(rank), ...] = this rank's rows of every member's `full` [total, ...], in rank order; rows: the same
  // in all members. They do not overlap.
  virtual void exchange(Stream& stream, const Tensor& full, const Tensor& received, const RowSplit& rows);

  // Sends each member its rows of the sources, and receives those of all members, in rank order. Sources and targets do not
  // overlap, and all members must exchange tensors of the same columns and types. Groups of expert-parallel ranks have it.
  virtual void all_to_all(Stream& stream, const RowExchange& exchange);

  // Returns the group's transfers in pieces; null where they would gain nothing.
  virtual PiecewiseTransfer* in_pieces() { return nullptr; }

  // Ends every member's waits and later collectives with this cause: their streams fail. Thread-safe.
  virtual void abort(std::exception_ptr cause) = 0;

 protected:
  Group() = default;
};

}  // namespace pipetrain
