// The samples of a step as the forwards of one rank meet them: how many of their tokens the rank has in each action, where
// these stand in the samples, where documents begin, and which numbers dropout is drawn from.
#pragma once

#include <cstdint>
#include <optional>

#include "actors/engine/stage_compute.hpp"
#include "actors/training/rank/rank_setup.hpp"
#include "core/buffer.hpp"
#include "model/context/sequence_part.hpp"

namespace pipetrain {

// Counts microbatches as actions do, in slices where they pass in slices. Used by the rank's worker; not thread-safe.
class StepInputs {
 public:
  // Allocates memory for documents where the data isolates them; `compute` is the stream that forwards run on. Both arguments
  // outlive this. Throws Error(out_of_memory).
  StepInputs(const RankSetup& setup, Stream& compute);

  // The actions that follow are of this step. Enqueues what brings its documents to the device. Throws Error(input) for samples
  // that have fewer tokens than slices, and what the samples throw.
  void begin(const StepInfo& step);
  // The actions that follow are of the longest samples that a step may have, and of no step.
  void begin_longest() { sequence_.tokens = setup_.sequence; }

  // The tokens of each sample in an action on this microbatch, for StageModel::set_sequence().
  std::int64_t tokens(int microbatch) const { return sequence_.count(microbatch % sequence_.slices); }
  // The slice that a forward computes, without those before it; nothing where microbatches pass whole.
  std::optional<SliceArgs> slice(int microbatch) const;
  // Sets the forward's slice, documents and draws, which begin() has prepared.
  void add_to(ForwardArgs& forward, int microbatch) const;

 private:
  const StepSamples& samples() const { return step_.evaluates() ? *setup_.evaluation : *setup_.training; }
  void load_documents();
  Tensor of_microbatch(const Tensor& documents, std::int64_t row, int microbatch) const;
  DropoutDraws draws(int microbatch) const;

  const RankSetup& setup_;
  Stream& compute_;
  StepInfo step_;
  SequenceSlices sequence_;
  Buffer documents_memory_, documents_host_memory_;  // none where the data does not isolate documents
  // [1 or 2, tokens of the step] i32, microbatch by microbatch: the first row is ForwardArgs::documents; where actions have
  // parts of sequences the second is ForwardArgs::origins. Without memory before the first step.
  Tensor documents_;
};

}  // namespace pipetrain
