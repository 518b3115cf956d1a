// RoutedCounts passes the counts of chosen experts through a chunk: forward from chunk to chunk, backward as totals.
#pragma once

#include "model/model_chunk.hpp"
#include "model/stage_edge.hpp"

namespace pipetrain {

// The counts of one pass of a microbatch, or of a slice of it. Only for an edge that has counts.
class RoutedCounts {
 public:
  RoutedCounts(const StageEdge& edge, const ModelChunk& chunk) : edge_(edge), chunk_(chunk) {}

  // Allocates the slot's counts, with those of the chunks before this one.
  void begin(Ops& ops, const ForwardArgs& args, ChunkSlot& slot) const;
  // Passes the slot's counts on after the forward. The end of the model adds up the parts of a sequence that several
  // ranks have, and its slices, so that the last slice knows the whole sequence's counts.
  void pass_on(const BlockContext& context, const ForwardArgs& args, const ChunkSlot& slot) const;
  // Returns the counts of all routed layers over the whole sequence, and passes them on to the chunk before this one.
  Tensor total(Ops& ops, const BackwardArgs& args, const ChunkSlot& slot) const;

 private:
  static const Tensor& counts_of(const ActivationSlot& slot) { return static_cast<const ChunkSlot&>(slot).counts; }

  const StageEdge& edge_;
  const ModelChunk& chunk_;
};

}  // namespace pipetrain
