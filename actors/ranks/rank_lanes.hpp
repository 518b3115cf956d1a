// A rank's lanes of the slots that go from stage to stage: memory for those that its stage receives, links to those that it
// fills.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "comm/outgoing_links.hpp"
#include "comm/transport.hpp"
#include "core/buffer.hpp"
#include "core/device.hpp"
#include "core/mesh.hpp"

namespace pipetrain {

// A rank of the mesh among those that it exchanges slots with.
struct MeshRank {
  MeshCoordinate id;
  int rank = 0;  // of the mesh
  int lane = 0;  // of the slots of its part of the stage
  Device* device = nullptr;
  SlotMemory slot_memory;       // null: only to be estimated
  LinkKinds links;              // to the ranks whose slots it fills
  int mirrors = 0;              // slots of other processes that it fills by way of memory of its own
  std::size_t group_bytes = 0;  // that its groups over processes keep on its device
};

// Used by the rank's worker; make() before the first step, on any thread.
class RankLanes {
 public:
  // Outputs have at most so many bytes. The others outlive this. Throws Error(out_of_memory).
  RankLanes(const MeshRank& place, std::size_t output_bytes, Stream& compute);

  // A lane for tensors as large as this one, which has no memory; of an empty one it has neither memory nor events.
  Lane make(const Tensor& largest);
  // The tensor that the rank's lane of the slot holds; without memory where there is no slot.
  Tensor tensor(const SlotHandle& slot) const { return slot ? slot->lanes[lane_].tensor : Tensor{}; }

  void wait_for_inputs(const Launch& launch);
  struct Output {
    Lane* lane = nullptr;  // null: the launch has none
    Link* link = nullptr;
    Tensor target = {};  // where to write what the lane is to hold
  };
  Output begin_output(const Launch& launch, const Shape& shape);
  // Sends the output, if there is one, and frees the inputs that nobody reads after the launch.
  void pass_on(const Launch& launch, const Output& output);
  // The streams that carry outputs, beside the computing one.
  std::vector<Stream*> streams() const { return links_.streams(); }

 private:
  const MeshRank& place_;
  Stream& compute_;
  std::size_t lane_;
  std::vector<Buffer> memory_;
  OutgoingLinks links_;
};

}  // namespace pipetrain
