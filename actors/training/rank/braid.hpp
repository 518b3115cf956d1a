// How a rank runs the two actions of a braid: in turns, each up to its next collective between the tensor-parallel ranks, which
// travels on a stream of its own while the other action computes.
#pragma once

#include <array>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/training/rank/turns.hpp"
#include "core/device.hpp"
#include "core/event.hpp"
#include "core/process_group.hpp"

namespace pipetrain {

// A group whose collectives give the turn to the other action of a braid. Outside of run() it is the group that it wraps. In
// run() every member must braid the same actions: then their collectives keep one order, because the turns depend on nothing
// but the actions' own collectives, and no member waits for one that another has behind one that it waits for. Where an action
// fails, the other enqueues no further collective, which would meet another one of the members that have not failed.
class BraidGroup : public Group, private PiecewiseTransfer {
 public:
  // `group` outlives it.
  BraidGroup(Group& group, Device& device, const std::string& name);

  // Enqueues both, the first action's up to its first collective first, and so on in turns; see Turns::run(). Both must have
  // memory of their own for what is between two of their collectives.
  void run(const std::function<void()>& first, const std::function<void()>& second) { turns_.run(first, second); }
  // By the action whose turn it is, where it has no collectives of its own.
  void pass() { turns_.pass(); }
  Stream& stream() { return *stream_; }  // of the collectives

  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  using Group::all_gather, Group::reduce_scatter;
  void all_gather(Stream& stream, const Tensor& shard, const Tensor& full, const RowSplit& rows) override;
  void reduce_scatter(Stream& stream, const Tensor& full, const Tensor& shard, const RowSplit& rows) override;
  void all_reduce(Stream& stream, const Tensor& tensor, Reduction reduction) override;
  void shift(Stream& stream, const Tensor& source, const Tensor& target) override { group_.shift(stream, source, target); }
  PiecewiseTransfer* in_pieces() override { return group_.in_pieces() == nullptr ? nullptr : this; }
  void abort(std::exception_ptr cause) override { group_.abort(std::move(cause)); }

 private:
  // collective(stream): on this one's stream in a braid, else on the caller's.
  template <class Collective>
  void beside(Stream& stream, Collective collective);

  // These travel beside the caller's stream in any case. The turn passes while the pieces are on their way.
  void gather(Stream& stream, const Tensor& shard, const Tensor& full, const RowSplit& rows, const Work& use,
              const std::function<void()>& meanwhile) override;
  void exchange(Stream& stream, const Tensor& full, const Tensor& received, const Work& make,
                const std::function<void()>& meanwhile) override;
  void wait_until_idle() noexcept override { group_.in_pieces()->wait_until_idle(); }
  std::function<void()> and_pass(const std::function<void()>& meanwhile);

  Group& group_;
  std::unique_ptr<Stream> stream_;
  struct Events {
    std::unique_ptr<Event> computed, arrived;
  };
  std::array<Events, 2> events_;  // of each action: its last collective's
  Turns turns_;
};

}  // namespace pipetrain
