// A rank keeps its parameters by group: in a ParameterStorage for each group that is trained, and in FrozenWeights for those
// that are frozen. Whoever asks for a parameter names it by its index in the layout of the whole rank.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "actors/training/rank/rank_setup.hpp"
#include "actors/training/state/frozen_weights.hpp"
#include "actors/training/state/parameter_storage.hpp"
#include "model/parameters/grouped_parameters.hpp"
#include "model/parameters/parameter_groups.hpp"

namespace pipetrain {

struct TrainedGroup {
  TrainedGroup(const GroupLayout& group, const StorageSetup& setup, Ops& ops) : of(group), storage(setup, ops) {}
  const GroupLayout& of;
  ParameterStorage storage;
  std::vector<CountedPart> counted;  // in the norm, by their index in the group's layout
};

// Used by the rank's worker, not thread-safe.
class GroupStorages {
 public:
  // Allocates everything, all zero. What it is given outlives it. Throws Error(out_of_memory).
  GroupStorages(const RankSetup& setup, const ParameterLayout& layout, Ops& ops);

  // In the order of group_layouts(); none where the rank's whole part of the model is frozen.
  const std::vector<std::unique_ptr<TrainedGroup>>& trained() const { return trained_; }
  // Give the tensors of all groups, in the order of the whole layout.
  ParameterStore& parameters() { return *parameters_; }
  GradientPlaces gradient_places() const;
  // Weights that are always there for operations to read, of which the first is a parameter's.
  Tensor settled();

  // These are as RankState has them.
  void load(const InitialState& state);
  void read(const StatePart& part, float* out);
  void check_holds(const StatePart& part) const { static_cast<void>(holder(part)); }
  std::vector<HeldState> saved() const;
  static MemoryUse memory(const RankSetup& setup, const ParameterLayout& layout);

 private:
  // The part of a parameter that a rank holds, by its index in the layout of its group; without a group it is frozen.
  struct Holder {
    TrainedGroup* group;
    HeldPart held;
  };

  TrainedGroup& add_trained(const GroupLayout& group, Ops& ops);
  Holder holder(const StatePart& part) const;

  const RankSetup& setup_;
  const ParameterLayout& layout_;
  const std::vector<GroupLayout> groups_;
  std::vector<std::unique_ptr<TrainedGroup>> trained_;
  std::unique_ptr<FrozenWeights> frozen_;     // null: nothing is
  std::optional<GroupedParameters> grouped_;  // where there are several groups
  ParameterStore* parameters_ = nullptr;
};

}  // namespace pipetrain
