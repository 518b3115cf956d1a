// A rank's lanes of the slots between stages: memory for the slots that its stage receives, and links to those that it fills.
#pragma once

#include <cstddef>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "comm/outgoing_links.hpp"
#include "comm/transport.hpp"
#include "core/buffer.hpp"
#include "core/device.hpp"
#include "core/mesh.hpp"

namespace pipetrain {

// A rank of the mesh, as one of those between which slots are sent.
struct MeshRank {
  MeshCoordinate id;
  int rank = 0;  // index in the mesh
  int lane = 0;  // of the slots of its part of the stage
  Device* device = nullptr;
  SlotMemory slot_memory;       // null: the rank is only estimated
  LinkKinds links;              // to the ranks whose slots it fills
  int mirrors = 0;              // slots of other processes that it fills through memory of its own
  std::size_t group_bytes = 0;  // bytes that its groups over processes keep on its device
};

// Used by the rank's worker; make() is called before the first step, on any thread.
class RankLanes {
 public:
  // output_bytes: the most bytes of an output. The references must outlive this. Throws Error(out_of_memory).
  RankLanes(const MeshRank& place, std::size_t output_bytes, Stream& compute);

  // Returns a lane for tensors up to this size; `largest` needs no memory. For an empty one the lane has neither memory
  // nor events.
  Lane make(const Tensor& largest);
  // Returns the tensor in the rank's lane of the slot; one without memory where there is no slot.
  Tensor tensor(const SlotHandle& slot) const { return slot ? slot->lanes[lane_].tensor : Tensor{}; }

  void wait_for_inputs(const Launch& launch);
  struct Output {
    Lane* lane = nullptr;  // null: the launch has none
    Link* link = nullptr;
    Tensor target = {};  // where to write the contents of the lane
  };
  Output begin_output(const Launch& launch, const Shape& shape);
  // Sends the output, if there is one, and frees the inputs that have no reader after this launch.
  void pass_on(const Launch& launch, const Output& output);
  // Returns the streams that carry outputs; the computing stream is not among them.
  std::vector<Stream*> streams() const { return links_.streams(); }

 private:
  const MeshRank& place_;
  Stream& compute_;
  std::size_t lane_;
  std::vector<Buffer> memory_;
  OutgoingLinks links_;
};

}  // namespace pipetrain
