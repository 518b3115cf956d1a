// The open edges of one process, and the descriptions of edges that processes exchange before.
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
  struct SlotState {
    bool held = false;  // by this process: no message may arrive
    std::uint32_t fillings = 0;
    std::int32_t microbatch = 0;
    std::vector<bool> begun;                         // by message: one per lane, and one for a slot without lanes
    std::size_t left = 0;                            // messages that have not arrived yet
    std::vector<std::unique_ptr<UcxMemory>> memory;  // by lane
  };

  EdgeReceiver end;
  std::vector<SlotState> states;  // by slot
  bool shared = false;            // the producer may have mapped the slots
};

// An edge out of mirrors, which have their own memory or are the slots themselves.
struct UcxSendingEdge {
  EdgeSender end;
  std::vector<SlotHandle> mirrors;
  std::vector<std::uint32_t> fillings;               // by slot; counted by the holder of the mirror
  std::unique_ptr<std::atomic<bool>[]> credited;     // by slot: the producer holds the mirror
  std::vector<SharedBuffer> buffers;                 // by lane: that lane of all mirrors; empty where slots are mirrors
  std::vector<std::unique_ptr<MappedMemory>> slots;  // mapped slots that serve as mirrors; empty where there are none
  std::vector<std::unique_ptr<UcxMemory>> memory;    // by lane
};

struct UcxEdgeTable {
  std::uint32_t generation = 0;
  std::mutex gate;   // held while events call back
  bool open = true;  // under gate: events may still call back
  std::map<EdgeId, UcxReceivingEdge> receiving;
  std::map<EdgeId, UcxSendingEdge> sending;
  // On the worker's thread:
  bool closed = false;
  std::map<int, int> moving;  // messages in flight to and from each process that touch slots or mirrors

  std::set<int> peers() const;  // at the other ends
  bool is_still() const;
};

// Returns the name under which others may map a lane of a slot, if they may.
using NameOfLane = std::function<std::optional<SharedMemoryName>(const Lane& lane)>;

// True when there are lanes, and all lanes of all slots have names.
bool is_shared(const EdgeReceiver& end, const NameOfLane& name_of);

// Describes this process's ends for the other processes.
Bytes describe_edges(
    const std::vector<EdgeReceiver>& receivers, const std::vector<EdgeSender>& senders,
    const NameOfLane& name_of = [](const Lane&) { return std::nullopt; });

// Describes the memory of this process's mirrors for processes that may map them.
Bytes describe_mirrors(const UcxEdgeTable& table);
// Returns, from the descriptions of all processes (described, by process), the mirrors that fill slots of this one, by
// their process. Throws Error(peer_lost) for invalid bytes.
std::map<int, std::vector<SharedMemoryName>> mirrors_for(int process, const std::vector<Bytes>& described);

// Makes the mirrors from the descriptions of all processes (described, by process). Throws Error: internal where the
// ends of an edge do not fit together, peer_lost for invalid bytes, out_of_memory.
std::shared_ptr<UcxEdgeTable> make_edge_table(const ControlPlane& control, const std::vector<Bytes>& described,
                                              std::vector<EdgeReceiver> receivers, std::vector<EdgeSender> senders);

}  // namespace pipetrain
