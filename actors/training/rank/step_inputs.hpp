// A step's samples as one rank's forwards need them: the number of tokens in each action, their positions in the
// samples, the begins of documents, and the numbers that dropout is drawn from.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "actors/engine/stage_compute.hpp"
#include "actors/training/rank/rank_setup.hpp"
#include "core/buffer.hpp"
#include "model/context/sequence_part.hpp"

namespace pipetrain {

// Counts microbatches as actions do: slices, where there are slices. Used by the rank's worker; not thread-safe.
class StepInputs {
 public:
  // Allocates memory for documents where the data isolates them; `compute` is the stream of the forwards. Both
  // arguments must outlive this. Throws Error(out_of_memory).
  StepInputs(const RankSetup& setup, Stream& compute);

  // Prepares the actions of this step, and enqueues the copy of its documents to the device. Throws Error(input) for
  // samples that have fewer tokens than slices, and what the samples throw.
  void begin(const StepInfo& step);
  // Prepares actions, outside of any step, on the longest samples that a step may have.
  void begin_longest() { sequence_.tokens = setup_.sequence; }

  // Returns the tokens of each sample in an action on this microbatch, for StageModel::set_sequence().
  std::int64_t tokens(int microbatch) const { return sequence_.count(microbatch % sequence_.slices); }
  // Returns the slice that a forward computes, without those before it; no value where microbatches are not sliced.
  std::optional<SliceArgs> slice(int microbatch) const;
  // Sets the forward's slice, documents and draws, which begin() has prepared.
  void add_to(ForwardArgs& forward, int microbatch) const;

 private:
  void load_documents();
  Tensor of_microbatch(const Tensor& documents, std::int64_t row, int microbatch) const;
  DropoutDraws draws(int microbatch) const;

  const RankSetup& setup_;
  Stream& compute_;
  StepInfo step_;
  std::shared_ptr<const StepSamples> samples_;  // of the step
  SequenceSlices sequence_;
  Buffer documents_memory_, documents_host_memory_;  // empty where the data does not isolate documents
  // [1 or 2, tokens of the step] i32, microbatch by microbatch: the first row is ForwardArgs::documents; where actions
  // compute parts of sequences, the second is ForwardArgs::origins. Without memory before the first step.
  Tensor documents_;
};

}  // namespace pipetrain
