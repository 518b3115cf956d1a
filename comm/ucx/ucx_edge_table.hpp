// The edges of one process while they are open, and what the processes tell each other of them beforehand.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "comm/control_plane.hpp"
#include "comm/slot.hpp"
#include "comm/transport.hpp"
#include "comm/ucx/ucx_shared_memory.hpp"
#include "comm/ucx/ucx_worker.hpp"
#include "core/buffer.hpp"
#include "core/wire.hpp"

namespace pipetrain {

// An edge into a slot's memory. The slots' states belong to the worker's thread.
struct UcxReceivingEdge {
  struct Place {
    bool held = false;  // by this process: nothing may come in
    std::uint32_t fillings = 0;
    std::int32_t microbatch = 0;
    std::vector<bool> begun;                         // by message: one a lane, and one for a slot without lanes
    std::size_t left = 0;                            // messages that have not come yet
    std::vector<std::unique_ptr<UcxMemory>> memory;  // by lane
  };

  EdgeReceiver end;
  std::vector<Place> places;  // by slot
  bool shared = false;        // the producer may have mapped the slots
};

// An edge out of mirrors: memory of their own, or the slots' themselves.
struct UcxSendingEdge {
  EdgeSender end;
  std::vector<SlotHandle> mirrors;
  std::vector<std::uint32_t> fillings;               // by slot; whoever holds the mirror counts
  std::unique_ptr<std::atomic<bool>[]> credited;     // by slot: the mirror is the producer's
  std::vector<SharedBuffer> buffers;                 // by lane: all mirrors' lanes of this number; none of slots
  std::vector<std::unique_ptr<MappedMemory>> slots;  // that mirrors are; none: they are not
  std::vector<std::unique_ptr<UcxMemory>> memory;    // by lane
};

struct UcxEdgeTable {
  std::uint32_t generation = 0;
  std::mutex gate;   // held while events call back
  bool open = true;  // under gate: events still may
  std::map<EdgeId, UcxReceivingEdge> receiving;
  std::map<EdgeId, UcxSendingEdge> sending;
  // On the worker's thread:
  bool closed = false;
  std::map<int, int> moving;  // messages on their way to and from each process that touch slots or mirrors

  std::set<int> peers() const;  // at the other ends
  bool is_still() const;
};

// Under which name others may map a lane of a slot, if they may.
using NameOfLane = std::function<std::optional<SharedMemoryName>(const Lane& lane)>;

// Whether all lanes of all slots have names, and there are some.
bool is_shared(const EdgeReceiver& end, const NameOfLane& name_of);

// What the other processes must know of this one's ends.
Bytes describe_edges(
    const std::vector<EdgeReceiver>& receivers, const std::vector<EdgeSender>& senders,
    const NameOfLane& name_of = [](const Lane&) { return std::nullopt; });

// Where this process's mirrors are, for those that may map them.
Bytes describe_mirrors(const UcxEdgeTable& table);
// Out of what all processes say of theirs (described, by process): the mirrors that fill slots of this one, by who has them.
// Throws Error(peer_lost) for bytes that no process should send.
std::map<int, std::vector<SharedMemoryName>> mirrors_for(int process, const std::vector<Bytes>& described);

// Makes the mirrors from what all processes say (described, by process). Throws Error: internal where the ends of an edge do
// not fit together, peer_lost for bytes that no process should send, out_of_memory.
std::shared_ptr<UcxEdgeTable> make_edge_table(const ControlPlane& control, const std::vector<Bytes>& described,
                                              std::vector<EdgeReceiver> receivers, std::vector<EdgeSender> senders);

}  // namespace pipetrain
