// Edges over UCX: a mirror's contents are sent as one active message per lane, which lands in the slot's lane itself; the last
// lane to arrive completes the slot. Large lanes use rendezvous: the receiver fetches them from the mirror's memory. Between
// processes of one machine, the mirror is the slot itself where that is of slot_memory(): messages then carry no data.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "comm/control_plane.hpp"
#include "comm/transport.hpp"
#include "comm/ucx/ucx_payload.hpp"
#include "comm/ucx/ucx_peers.hpp"
#include "comm/ucx/ucx_slot_memory.hpp"
#include "comm/ucx/ucx_worker.hpp"

namespace pipetrain {

struct UcxDataHeader;
struct UcxEdgeTable;
struct UcxSendingEdge;

// Implements the part of Transport that concerns edges; see there.
class UcxEdges {
 public:
  UcxEdges(UcxWorker& worker, UcxPeers& peers, ControlPlane& control);
  ~UcxEdges();
  UcxEdges(const UcxEdges&) = delete;
  UcxEdges& operator=(const UcxEdges&) = delete;

  void open(std::vector<EdgeReceiver> receivers, std::vector<EdgeSender> senders);
  void close() noexcept;
  const std::vector<SlotHandle>& mirrors(EdgeId edge) const;
  Buffer slot_memory(Device& device, std::size_t bytes, const std::string& what) {
    return slots_.allocate(device, bytes, what);
  }
  void deliver(EdgeId edge, int slot, int microbatch);
  void give_credit(EdgeId edge, int slot);

 private:
  std::shared_ptr<UcxEdgeTable> table() const;
  void register_memory(UcxEdgeTable& table);
  void send(const std::shared_ptr<UcxEdgeTable>& open, UcxSendingEdge& edge, UcxDataHeader header, const Lane& lane);
  void post(const std::shared_ptr<UcxEdgeTable>& open, std::function<void()> work);
  void take_data(std::span<const std::byte> header, UcxPayload& payload);
  void take_credit(std::span<const std::byte> header);
  void wait_until_still(UcxEdgeTable& table) noexcept;

  UcxWorker& worker_;
  UcxPeers& peers_;
  ControlPlane& control_;
  UcxSlotMemory slots_;
  std::uint32_t generation_ = 0;  // of the edges that were opened last
  mutable std::mutex mutex_;
  std::shared_ptr<UcxEdgeTable> table_;    // under mutex_; null: no edges are open
  std::shared_ptr<UcxEdgeTable> current_;  // the same, on the worker's thread
};

}  // namespace pipetrain
