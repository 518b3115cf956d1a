// Runs the two actions of a braid on a rank alternately, each up to its next collective between the ranks that share the
// stage's matrices or experts. The collective runs on a stream of its own while the other action computes.
#pragma once

#include <array>
#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "actors/training/rank/turns.hpp"
#include "core/device.hpp"
#include "core/event.hpp"
#include "core/process_group.hpp"

namespace pipetrain {

// The two actions of a rank's braid, and the stream of their collectives. Every rank of each group must braid the same actions:
// the collectives then have one order, because switches depend only on the actions' own collectives, so no deadlock is
// possible. When an action fails, the other enqueues no further collective: on ranks that have not failed, it would meet a
// different one. Not thread-safe.
class Braid {
 public:
  Braid(Device& device, const std::string& name);

  // Enqueues both actions alternately, beginning with the first up to its first collective; see Turns::run(). Both must
  // have their own memory for data between two of their collectives.
  void run(const std::function<void()>& first, const std::function<void()>& second) { turns_.run(first, second); }
  // Switches to the other action, for an action without collectives of its own.
  void pass() { turns_.pass(); }
  Stream& stream() { return *stream_; }  // of the collectives

  // Calls collective(on): in run() with this object's stream, which waits for what the caller's stream has, and then switches
  // to the other action; otherwise with the caller's stream.
  void overlap(Stream& stream, const std::function<void(Stream& on)>& collective);

 private:
  std::unique_ptr<Stream> stream_;
  struct Events {
    std::unique_ptr<Event> computed, arrived;
  };
  std::array<Events, 2> events_;  // by action: of its last collective
  Turns turns_;
};

// A group whose collectives switch to the other action of a braid. While no braid runs, it behaves as the group that it wraps.
class BraidGroup : public Group, private PiecewiseTransfer {
 public:
  // Both must outlive it.
  BraidGroup(Group& group, Braid& braid) : group_(group), braid_(braid) {}

  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  using Group::all_gather, Group::reduce_scatter;
  void all_gather(Stream& stream, const Tensor& shard, const Tensor& full, const RowSplit& rows) override;
  void reduce_scatter(Stream& stream, const Tensor& full, const Tensor& shard, const RowSplit& rows) override;
  void all_reduce(Stream& stream, const Tensor& tensor, Reduction reduction) override;
  void all_to_all(Stream& stream, const RowExchange& exchange) override;
  void shift(Stream& stream, const Tensor& source, const Tensor& target) override { group_.shift(stream, source, target); }
  PiecewiseTransfer* in_pieces() override { return group_.in_pieces() == nullptr ? nullptr : this; }
  void abort(std::exception_ptr cause) override { group_.abort(std::move(cause)); }

 private:
  // These always overlap with the caller's stream. The other action has its turn while the pieces are being sent.
  void gather(Stream& stream, const Tensor& shard, const Tensor& full, const RowSplit& rows, const Work& use,
              const std::function<void()>& meanwhile) override;
  void exchange(Stream& stream, const Tensor& full, const Tensor& received, const Work& make,
                const std::function<void()>& meanwhile) override;
  void wait_until_idle() noexcept override { group_.in_pieces()->wait_until_idle(); }
  std::function<void()> and_pass(const std::function<void()>& meanwhile);

  Group& group_;
  Braid& braid_;
};

}  // namespace pipetrain
