// How the ranks of one process reach those of others: slots that other processes fill, and collectives. One file per
// kind: ucx_transport (CPU memory), ipc_transport (GPUs of one host), nccl_transport (GPUs of several hosts).
//
// An edge is one queue (comm/slot.hpp) whose producer runs in another process. The queue is in the consumer's process
// and owns the slots. The producer holds their mirrors: one slot of its own process for each, which it fills like any
// other. deliver() carries a mirror's contents into the slot of the same number; give_credit() tells the producer that
// the slot is free again. Nobody posts receives, and no edge waits for another.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/control_plane.hpp"
#include "comm/groups.hpp"
#include "comm/link.hpp"
#include "comm/slot.hpp"
#include "core/buffer.hpp"
#include "core/device.hpp"
#include "core/mesh.hpp"

namespace pipetrain {

// NCCL edges use puts where both ends can (nccl), must use puts (nccl_put), or use sends and receives (nccl_send).
enum class TransportKind { ucx, ipc, nccl, nccl_put, nccl_send };

// Returns the word that chooses it: "ucx".
const char* to_string(TransportKind kind) noexcept;

// The same number in every process of the run.
using EdgeId = std::uint32_t;

// The consumer's end of an edge.
struct EdgeReceiver {
  EdgeId edge = 0;
  int from = 0;                   // the producer's process
  std::vector<SlotHandle> slots;  // one lane for each rank of the consumer's part; all on devices of this process
  // The slot holds this microbatch: its lanes have their shapes, and their `ready` events (if any) may be waited for.
  // Called on a thread of the transport; must not block.
  std::function<void(int slot, int microbatch)> arrived;
};

// The producer's end.
struct EdgeSender {
  EdgeId edge = 0;
  int to = 0;                    // the consumer's process
  std::vector<Device*> devices;  // of the ranks that fill the lanes, by lane
  std::vector<int> ranks;        // the same devices' ranks in the mesh, by lane
  // The producer may fill this slot again. Called like `arrived`.
  std::function<void(int slot)> credit;
};

// Returns this many bytes of a device's memory for slots; `what` names them in Error(out_of_memory).
using SlotMemory = std::function<Buffer(std::size_t bytes, const std::string& what)>;

class Transport {
 public:
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // --- set-up, from one thread; every process makes the calls in the same order ---
  // Opens all edges of a pipeline at once, those that this process receives from and those that it sends to: connects
  // them and registers their memory. Blocks until the other ends have done the same; throws Error (peer_lost,
  // out_of_memory, unavailable).
  virtual void open_edges(std::vector<EdgeReceiver> receivers, std::vector<EdgeSender> senders) = 0;
  // Ends all edges: when it returns, nothing touches the memory of slots and mirrors any more, and neither `arrived` nor
  // `credit` runs; data in flight is lost. All processes may then open edges again. Blocks for some seconds at most, even when
  // a peer is gone; do not call it on a thread of the transport. Call it before the slots' memory is freed, also after abort().
  virtual void close_edges() noexcept = 0;
  // The mirrors of an edge that this process sends to, by slot number.
  virtual const std::vector<SlotHandle>& mirrors(EdgeId edge) const = 0;
  // Makes a group as World::group does, for members in several processes. Returns the handles of this process's members. Every
  // process that runs a member calls it, in the same order; `number` identifies the group and is the same in each of them.
  virtual std::map<int, std::shared_ptr<Group>> group(const std::vector<int>& ranks, std::uint32_t number,
                                                      const std::map<int, Device*>& devices, GroupUse use) = 0;
  // Returns the bytes of a member's device that a group of this many ranks keeps for data in flight.
  virtual std::size_t group_memory(int ranks) const {
    static_cast<void>(ranks);
    return 0;
  }
  // Allocates memory of a device of this process for slots that other processes fill. Other memory works too, but may
  // cost an extra copy. Throws as Device::allocate(); free it after close_edges().
  virtual Buffer slot_memory(Device& device, std::size_t bytes, const std::string& what) {
    return device.allocate(bytes, what);
  }
  // Describes for people how the edges that were opened last are carried: "ucx", "nccl, putting".
  virtual std::string description() const = 0;
  // Returns the kind of link from a rank of this process to a mirror for a rank of another one.
  virtual LinkKind link(int from, int to) const = 0;

  // --- in steps; thread-safe, never block ---
  // Carries the mirror's contents, with the lanes' shapes, into the slot once the lanes' `ready` events have been reached.
  virtual void deliver(EdgeId edge, int slot, int microbatch) = 0;
  virtual void give_credit(EdgeId edge, int slot) = 0;

  // handler: called once, on a thread of the transport, with the first lost process and the reason. Must not block.
  virtual void on_lost(ControlPlane::OnLost handler) = 0;
  // Ends all transfers in flight; later calls do nothing. Groups are aborted separately. Thread-safe.
  virtual void abort(std::exception_ptr cause) noexcept = 0;

 protected:
  Transport() = default;
};

// Returns the kind that this run uses: the wanted one, or the first that can join all ranks: UCX for CPUs; CUDA IPC for
// GPUs where all processes run on one host, else NCCL. The same in every process. Throws Error: input for a kind that
// cannot carry these ranks, unavailable for one that this build lacks.
TransportKind choose_transport(const ControlPlane& control, const Mesh& mesh, DeviceKind devices, const TransportKind* wanted);
// The control plane and the mesh must outlive it. Every process makes it at the same point in its calls of
// ControlPlane::exchange. Throws Error (unavailable, peer_lost).
std::unique_ptr<Transport> make_transport(TransportKind kind, ControlPlane& control, const Mesh& mesh);

}  // namespace pipetrain
