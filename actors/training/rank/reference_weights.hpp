// The weights, on one rank, of the model that preferences are compared with (ReferenceModel). A reference
// from a folder has all of its weights in memory of its own. If the reference is the model as it began, only copies of the
// trained weights are kept: it shares frozen and quantised weights with the model.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "actors/training/rank/group_storages.hpp"
#include "actors/training/rank/rank_setup.hpp"
#include "actors/training/state/frozen_weights.hpp"

namespace pipetrain {

// Used by the rank's worker, not thread-safe.
class ReferenceWeights {
 public:
  // True when the run compares preferences with a reference.
  static bool are_needed(const RankSetup& setup);
  // Allocates zeros. model: the rank's parameters. The arguments must outlive it. Throws Error(out_of_memory).
  ReferenceWeights(const RankSetup& setup, const ParameterLayout& layout, GroupStorages& model, Stream& stream);

  // In the order of the whole layout.
  ParameterStore& weights() { return grouped_ ? *grouped_ : copies_.front()->weights(); }
  // Loads the weights that it keeps. Waits for the stream. Throws what the source throws.
  void load(const WeightSource& source);

  // Returns the bytes that it will allocate. Pure.
  static MemoryUse memory(const RankSetup& setup, const ParameterLayout& layout);

 private:
  std::vector<std::unique_ptr<FrozenWeights>> copies_;
  std::optional<GroupedParameters> grouped_;  // where some of the weights are the model's own, or in several copies
};

}  // namespace pipetrain
