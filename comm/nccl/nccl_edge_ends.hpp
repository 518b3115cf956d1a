// This process's ends of the edges over NCCL: the communicators of their lanes, the memory of slots and mirrors, and the
// choice between puts and sends. NCCL builds only.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/control_plane.hpp"
#include "comm/controlled/controlled_edges.hpp"
#include "comm/nccl/nccl_comms.hpp"
#include "comm/nccl/nccl_lane.hpp"
#include "comm/nccl/nccl_memory.hpp"
#include "comm/nccl/nccl_transport.hpp"
#include "core/buffer.hpp"
#include "core/device.hpp"
#include "core/mesh.hpp"
#include "core/wire.hpp"

namespace pipetrain {

// One end of an edge.
struct NcclEnd {
  std::vector<std::unique_ptr<NcclLane>> lanes;
  bool puts = false;
  std::atomic<int> under_way{0};  // puts that the consumer has not been told of
};

// Set up and cleared by the thread that opens and closes edges; the ends are fixed while edges are open, and are used by the
// thread of transfers then. slot_memory() and description() are thread-safe.
class NcclEdgeEnds {
 public:
  NcclEdgeEnds(ControlPlane& control, const Mesh& mesh, NcclComms& comms, NcclWay way);

  // See ControlledTransport.
  Bytes introduce() const;
  Bytes offer(const EdgeReceiver& receiver);
  // Joins the communicators of all lanes, chooses the way of each edge, makes the mirrors and runs a first transfer. Throws
  // Error(unavailable) where an edge is to put and cannot.
  void connect(ControlledEdges& edges);
  void clear() noexcept;

  NcclEnd& at(EdgeId edge) { return ends_.at(edge); }
  const std::map<EdgeId, NcclEnd>& all() const { return ends_; }
  Buffer slot_memory(Device& device, std::size_t bytes, const std::string& what);
  std::string description() const;

 private:
  ControlPlane& control_;
  NcclComms& comms_;
  NcclWay way_;
  std::string no_puts_;  // why this process cannot put and nobody can put into its slots; empty: puts work
  NcclMemory memory_;
  std::map<int, std::unique_ptr<Device>> devices_;  // for the streams of receiving ends, by number
  std::map<EdgeId, NcclEnd> ends_;
  // For edges that this process receives from: whether their slots can be windows, and the lanes' names.
  std::map<EdgeId, Bytes> offers_;
  std::vector<Buffer> mirror_memory_;
  std::atomic<int> putting_{0}, sending_{0};  // edges of the last connect() that use puts, and sends

  void connect_receiver(const EdgeReceiver& receiver);
  void connect_sender(ControlledSender& sender);
  std::string why_not_put(const ControlledEdges& edges, EdgeId id) const;
  void choose_way(const ControlledEdges& edges, EdgeId id, NcclEnd& end);
  void mirror(ControlledSender& sender);
  void rehearse(const ControlledEdges& edges);
  Device& device_of(const Lane& lane);
};

}  // namespace pipetrain
