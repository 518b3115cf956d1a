// The facts about a training step's sequences that the head of a preference loss reads, on a rank's device.
#pragma once

#include <optional>

#include "actors/training/input/preference_pass.hpp"
#include "actors/training/rank/rank_setup.hpp"
#include "core/buffer.hpp"

namespace pipetrain {

// Used by the rank's worker; not thread-safe.
class PreferenceInputs {
 public:
  // Allocates memory if the rank holds the head and the loss is one of preferences. The arguments must outlive this. Throws
  // Error(out_of_memory).
  PreferenceInputs(const RankSetup& setup, Stream& compute);

  // Enqueues the copy of the pass's facts to the device. The pass is that of the actions that follow.
  void begin(const PreferencePass& pass);
  // Adds the facts of a microbatch, or of the microbatch of a slice, and whether the forward leaves adapters out.
  void add_to(ForwardArgs& forward, int microbatch) const;

  static std::size_t bytes(const RankSetup& setup);

 private:
  // [batch, preference_facts] f64. No value in a forward pass.
  std::optional<Tensor> facts(int microbatch) const;

  const RankSetup& setup_;
  Stream& compute_;
  Buffer memory_, host_memory_;
  bool has_facts_ = false;  // in this step
  bool base_alone_ = false;
};

}  // namespace pipetrain
