// The biases of the experts of a rank's routed blocks, as each step begins with them: StepInfo::content holds those of all
// routed layers of the model, f32, by layer and expert.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "actors/training/rank/rank_setup.hpp"
#include "core/buffer.hpp"

namespace pipetrain {

// Used by the rank's worker.
class RankExpertBiases {
 public:
  // The setup must outlive this. Allocates nothing where the setup has no biases. Throws Error(out_of_memory).
  RankExpertBiases(const RankSetup& setup, Stream& stream);

  // Enqueues the copy of the step's biases to the device. Throws Error(internal) for content of another length.
  void begin_step(const StepInfo& step);
  void add_to(ForwardArgs& forward, int chunk) const { forward.expert_biases = chunks_.at(static_cast<std::size_t>(chunk)); }
  void add_to(BackwardArgs& backward, int chunk) const { backward.expert_biases = chunks_.at(static_cast<std::size_t>(chunk)); }

 private:
  Stream& stream_;
  std::int64_t experts_, model_layers_;
  std::vector<std::int64_t> layers_;  // of its routed blocks, by their numbers among the model's routed layers
  Buffer memory_, host_memory_;
  std::vector<Tensor> chunks_;  // by chunk: [its routed blocks, E]
};

}  // namespace pipetrain
