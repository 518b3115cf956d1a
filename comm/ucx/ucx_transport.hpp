// The transport for ranks on CPUs of different processes, over UCX: shared memory, TCP, or RDMA where UCX supports it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/control_plane.hpp"
#include "comm/transport.hpp"
#include "core/mesh.hpp"

namespace pipetrain {

class UcxWorker;
class UcxPeers;
class UcxEdges;
class UcxGroups;

bool has_ucx() noexcept;
// Throws Error: unavailable in a build without UCX or where UCX does not start, peer_lost.
std::unique_ptr<Transport> make_ucx_transport(ControlPlane& control, const Mesh& mesh);

// Returns the bytes of a member's memory that a group of this many ranks keeps for data in flight if each rank has its
// own process; groups with several members in a process need less. 0 in a build without UCX.
std::size_t ucx_group_memory(int ranks);

// Describes in one line for people the library's version and the transports and devices that it finds here, or that
// this build has no UCX. Never throws.
std::string describe_ucx();

// Exists in a build with UCX only.
class UcxTransport : public Transport {
 public:
  // See make_ucx_transport().
  UcxTransport(ControlPlane& control, const Mesh& mesh);
  ~UcxTransport() override;

  void open_edges(std::vector<EdgeReceiver> receivers, std::vector<EdgeSender> senders) override;
  void close_edges() noexcept override;
  const std::vector<SlotHandle>& mirrors(EdgeId edge) const override;
  std::map<int, std::shared_ptr<Group>> group(const std::vector<int>& ranks, std::uint32_t number,
                                              const std::map<int, Device*>& devices, GroupUse use) override;
  std::size_t group_memory(int ranks) const override { return ucx_group_memory(ranks); }
  Buffer slot_memory(Device& device, std::size_t bytes, const std::string& what) override;
  std::string description() const override { return "ucx"; }
  LinkKind link(int from, int to) const override;
  void deliver(EdgeId edge, int slot, int microbatch) override;
  void give_credit(EdgeId edge, int slot) override;
  void on_lost(ControlPlane::OnLost handler) override;
  void abort(std::exception_ptr cause) noexcept override;

  // Returns the number of messages that were malformed, stale or not of this run. Thread-safe.
  std::uint64_t dropped() const;

 private:
  const Mesh& mesh_;
  int process_;
  std::shared_ptr<UcxWorker> worker_;  // outlives the following
  std::shared_ptr<UcxPeers> peers_;
  std::unique_ptr<UcxEdges> edges_;
  std::unique_ptr<UcxGroups> groups_;
};

}  // namespace pipetrain
