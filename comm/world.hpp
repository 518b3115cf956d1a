// This process's part of the mesh: its ranks' devices, and how they reach other ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "comm/groups.hpp"
#include "comm/link.hpp"
#include "comm/transport.hpp"
#include "core/device.hpp"
#include "core/mesh.hpp"

namespace pipetrain {

// Not thread-safe while it is constructed; the const methods are.
class World {
 public:
  using OpenDevice = std::function<std::unique_ptr<Device>(int rank)>;

  // Opens the devices of the ranks that the mesh places in this process, none in a spare one, and no others, in rank order.
  // Exceptions of `open` pass through. transport: to ranks of other processes; null where none is needed.
  World(Mesh mesh, int process, const OpenDevice& open, std::shared_ptr<Transport> transport = nullptr);

  const Mesh& mesh() const { return mesh_; }
  int process() const { return process_; }
  const std::vector<int>& ranks() const { return ranks_; }   // of this process, in order
  Transport* transport() const { return transport_.get(); }  // null: none
  bool runs(int rank) const { return devices_.count(rank) > 0; }
  // Throws Error(internal) for a rank of another process.
  Device& device(int rank) const;

  // Allocates the memory of a rank of this process for slots that others fill: see Transport::slot_memory(). The world
  // must outlive it. Throws as device().
  SlotMemory slot_memory(int rank) const;

  // Makes a group of these ranks, in this order, and returns the handles of those that this process runs, by rank; none
  // where the group has only one member, or none here. Every process of the run must ask for the same groups in the
  // same order. Throws Error(unavailable) when the members are in different processes and there is no transport, and as
  // make_groups() and Transport::group() do. Not thread-safe.
  std::map<int, std::shared_ptr<Group>> group(const std::vector<int>& ranks, GroupUse use = GroupUse::alone);
  // Returns the kind of link from a rank of this process to a rank. Throws Error(unavailable) when the receiver is in
  // another process and there is no transport.
  LinkKind link(int from, int to) const;

 private:
  Mesh mesh_;
  int process_;
  std::vector<int> ranks_;
  std::map<int, std::unique_ptr<Device>> devices_;  // by rank
  std::shared_ptr<Transport> transport_;            // declared after the devices, so that it ends first
  std::uint32_t groups_ = 0;                        // number of calls of group(): the same in every process
};

}  // namespace pipetrain
