// Memory of the receiving stage for one microbatch's activation, gradient, tokens or targets. A free slot in a
// producer's hands is its credit to send; a filled one in the consumer's hands is an input. Exactly one actor holds a
// slot at a time; a message that hands it over passes the right to touch it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/event.hpp"
#include "core/stream.hpp"
#include "core/tensor.hpp"

namespace pipetrain {

// One rank's part of a slot. The producer's rank r writes lane r, the consumer's rank r reads it.
struct Lane {
  Tensor tensor;  // the producer may give it any shape whose bytes fit into `capacity`
  std::size_t capacity = 0;
  std::shared_ptr<Event> ready;  // recorded by the producer after writing; null: written by the time the message is sent
  std::shared_ptr<Event> free;   // recorded by the consumer after its last read; null: free when the credit arrives
  // Index in the mesh of the rank whose memory it is, which names the link to it; -1: any producer writes it directly.
  int rank = -1;
};

struct Slot {
  std::vector<Lane> lanes;
  // The producer's description of the contents, in its own format, such as the layout of a lane with many tensors: sent
  // along. At most most_note_bytes.
  std::string note;
  std::shared_ptr<void> owner;  // keeps memory from outside the arenas alive
};

using SlotHandle = std::shared_ptr<Slot>;

inline constexpr std::size_t most_note_bytes = 2048;

// The events that the stream of rank `lane` must wait for before it reads or overwrites the slot, and record afterwards.
inline void wait_until_ready(Stream& stream, const Slot& slot, std::size_t lane) {
  if (slot.lanes[lane].ready) stream.wait(*slot.lanes[lane].ready);
}
inline void wait_until_free(Stream& stream, const Slot& slot, std::size_t lane) {
  if (slot.lanes[lane].free) stream.wait(*slot.lanes[lane].free);
}
inline void mark_ready(Stream& stream, const Slot& slot, std::size_t lane) {
  if (slot.lanes[lane].ready) stream.record(*slot.lanes[lane].ready);
}
inline void mark_free(Stream& stream, const Slot& slot, std::size_t lane) {
  if (slot.lanes[lane].free) stream.record(*slot.lanes[lane].free);
}

}  // namespace pipetrain
