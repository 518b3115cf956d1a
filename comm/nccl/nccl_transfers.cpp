#include <algorithm>
#include <cassert>
#include <cstdint>
#include <memory>
#include <utility>

#include "comm/nccl/nccl_edges.hpp"
#include "comm/nccl/nccl_put_signal.hpp"

namespace pipetrain {
namespace {

// True when the GPUs have reached this event of all lanes.
bool all_reached(const Slot& slot, std::shared_ptr<Event> Lane::*event) {
  return std::all_of(slot.lanes.begin(), slot.lanes.end(),
                     [&](const Lane& lane) { return !(lane.*event) || (lane.*event)->query(); });
}

// Enqueues this end of a transfer of all lanes. Returns false where one cannot be enqueued.
bool transfer(NcclEnd& end, const Slot& slot, int number) {
  bool enqueued = true;
  for (std::size_t i = 0; i < end.lanes.size(); ++i) {
    end.lanes[i]->transfer(slot.lanes[i], number);
    enqueued = enqueued && !end.lanes[i]->failed();
  }
  return enqueued;
}

}  // namespace

// The message leaves once the data is ready, so that neither end's kernel holds multiprocessors while it waits for the
// other GPU.
void NcclTransport::send(const std::shared_ptr<Edges>& edges, Sender& sender, Delivery delivery) {
  ++unsent_;
  if (ends_.at(sender.edge.edge).puts) return put(edges, sender, delivery);
  const SlotHandle slot = sender.mirrors[static_cast<std::size_t>(delivery.slot)];
  thread_.add_when(
      sender.edge.edge, [this, slot] { return over() || all_reached(*slot, &Lane::ready); },
      [this, edges, &sender, delivery = std::move(delivery)] {
        if (!over()) announce(sender, delivery);
      });
}

// The slot is free, and copy engines wait for the data: the put is enqueued at once.
void NcclTransport::put(const std::shared_ptr<Edges>& edges, Sender& sender, const Delivery& delivery) {
  NcclEnd& end = ends_.at(sender.edge.edge);
  thread_.add_when(
      sender.edge.edge, [this, &end] { return over() || end.under_way < NcclPutSignal::most_under_way; },
      [this, edges, &sender, &end, delivery] {
        if (over()) return;
        [[maybe_unused]] const int before = end.under_way++;
        assert(before < NcclPutSignal::most_under_way);
        if (transfer(end, *sender.mirrors[static_cast<std::size_t>(delivery.slot)], delivery.slot)) {
          announce_put(edges, sender, delivery);
        } else {
          lose(sender.edge.to, "NCCL cannot put into its slots");
        }
      });
}

void NcclTransport::announce_put(const std::shared_ptr<Edges>& edges, Sender& sender, const Delivery& delivery) {
  constexpr std::uint64_t lines_of_puts = std::uint64_t{1} << 32;  // separate from those of edges
  const SlotHandle slot = sender.mirrors[static_cast<std::size_t>(delivery.slot)];
  thread_.add_when(
      lines_of_puts + sender.edge.edge, [this, slot] { return over() || all_reached(*slot, &Lane::free); },
      [this, edges, &sender, delivery] {
        if (over()) return;
        --ends_.at(sender.edge.edge).under_way;
        --unsent_;
        announce(sender, delivery);
      });
}

// The producer is told before the receive is enqueued, so that both ends begin at about the same time.
void NcclTransport::land(const std::shared_ptr<Edges>& edges, EdgeReceiver& receiver, const Delivery& delivery) {
  if (ends_.at(receiver.edge).puts) return take_put(edges, receiver, delivery);
  const SlotHandle slot = receiver.slots[static_cast<std::size_t>(delivery.slot)];
  thread_.add_when(
      receiver.edge, [this, slot] { return over() || all_reached(*slot, &Lane::free); },
      [this, edges, &receiver, slot, number = delivery.slot, microbatch = delivery.microbatch] {
        if (over()) return;
        announce_posted(receiver, number);
        transfer(ends_.at(receiver.edge), *slot, number);
        if (this->edges() == edges) receiver.arrived(number, microbatch);
      });
}

// The put is done: the GPU finds its signal without waiting.
void NcclTransport::take_put(const std::shared_ptr<Edges>& edges, EdgeReceiver& receiver, const Delivery& delivery) {
  thread_.add([this, edges, &receiver, number = delivery.slot, microbatch = delivery.microbatch] {
    if (over()) return;
    if (!transfer(ends_.at(receiver.edge), *receiver.slots[static_cast<std::size_t>(number)], number)) {
      return lose(receiver.from, "NCCL cannot wait for a put");
    }
    if (this->edges() == edges) receiver.arrived(number, microbatch);
  });
}

// Puts arrive without a request, so the slot must be free before the producer is told.
void NcclTransport::give(const std::shared_ptr<Edges>& edges, EdgeReceiver& receiver, SlotCredit credit) {
  if (!ends_.at(receiver.edge).puts) return announce(receiver, credit);
  const SlotHandle slot = receiver.slots[static_cast<std::size_t>(credit.slot)];
  thread_.add_when(
      receiver.edge, [this, slot] { return over() || all_reached(*slot, &Lane::free); },
      [this, edges, &receiver, credit = std::move(credit)] {
        if (!over()) announce(receiver, credit);
      });
}

void NcclTransport::posted(const std::shared_ptr<Edges>& edges, Sender& sender, int number) {
  thread_.add([this, edges, &sender, number] {
    if (over()) return;
    transfer(ends_.at(sender.edge.edge), *sender.mirrors[static_cast<std::size_t>(number)], number);
    --unsent_;
  });
}

// Runs after earlier sends on the thread: the mirror is free once its own send is recorded.
void NcclTransport::take(const std::shared_ptr<Edges>& edges, Sender& sender, const SlotCredit& credit) {
  thread_.add([this, edges, &sender, slot = credit.slot] {
    if (!aborted() && this->edges() == edges) sender.edge.credit(slot);
  });
}

void NcclTransport::watch() {
  if (aborted()) return;
  const NcclComms::Failure failure = comms_.failure();
  if (failure.process >= 0) lose(failure.process, failure.why);
}

}  // namespace pipetrain
