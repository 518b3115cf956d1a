// What one process runs of the mesh: its ranks' devices, and how they reach other ranks.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "comm/groups.hpp"
#include "comm/link.hpp"
#include "core/device.hpp"
#include "core/mesh.hpp"

namespace pipetrain {

// Not thread-safe while it is made; the const methods are.
class World {
 public:
  using OpenDevice = std::function<std::unique_ptr<Device>(int rank)>;

  // Opens the devices of the ranks that the mesh places in this process, and no others, in rank order. What `open` throws
  // passes through; throws Error(input) when the mesh places no rank here.
  World(Mesh mesh, int process, const OpenDevice& open);

  const Mesh& mesh() const { return mesh_; }
  int process() const { return process_; }
  const std::vector<int>& ranks() const { return ranks_; }  // of this process, in order
  bool runs(int rank) const { return devices_.count(rank) > 0; }
  // Throws Error(internal) for a rank of another process.
  Device& device(int rank) const;

  // Makes a group of these ranks, in this order, and gives the handles of those that this process runs, by rank; none where the
  // group has one member only, or none here. Every process that runs a member must make the same groups in the same order.
  // Throws Error(unavailable) when the members are in different processes, and as make_groups() does.
  std::map<int, std::shared_ptr<Group>> group(const std::vector<int>& ranks, GroupUse use = GroupUse::alone) const;
  // What carries results from a rank of this process to a rank. Throws Error(unavailable) when the receiver is in another
  // process.
  LinkKind link(int from, int to) const;

 private:
  Mesh mesh_;
  int process_;
  std::vector<int> ranks_;
  std::map<int, std::unique_ptr<Device>> devices_;  // by rank
};

}  // namespace pipetrain
