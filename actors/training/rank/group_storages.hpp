// Keeps a rank's parameters by group: a ParameterStorage for each trained group, FrozenWeights and
// QuantisedWeights for frozen parameters.
// Callers name a parameter by its index in the layout of the whole rank.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "actors/training/rank/rank_setup.hpp"
#include "actors/training/state/frozen_weights.hpp"
#include "actors/training/state/parameter_storage.hpp"
#include "actors/training/state/quantised_weights.hpp"
#include "model/parameters/grouped_parameters.hpp"
#include "model/parameters/parameter_groups.hpp"

namespace pipetrain {

struct TrainedGroup {
  TrainedGroup(const GroupLayout& group, const StorageSetup& setup, Ops& ops) : of(group), storage(setup, ops) {}
  const GroupLayout& of;
  ParameterStorage storage;
  std::vector<CountedPart> counted;  // counted in the norm, by index in the group's layout
};

// Used by the rank's worker, not thread-safe.
class GroupStorages {
 public:
  // Allocates zeros. The arguments must outlive it. Throws Error(out_of_memory).
  GroupStorages(const RankSetup& setup, const ParameterLayout& layout, const TensorParallel& tp, Ops& ops);

  // In the order of group_layouts(); empty where all of the rank's parameters are frozen.
  const std::vector<std::unique_ptr<TrainedGroup>>& trained() const { return trained_; }
  // The other groups: frozen and quantised weights, which no step changes.
  std::vector<GroupedParameters::Member> untrained();
  // Gives the tensors of all groups, in the order of the whole layout.
  ParameterStore& parameters() { return *parameters_; }
  GradientPlaces gradient_places() const;
  // Returns weights that operations can always read, the first of which is a parameter's.
  Tensor settled();

  // See RankState.
  void load(const InitialState& state);
  void read(const StatePart& part, float* out);
  void check_holds(const StatePart& part) const { static_cast<void>(holder(part)); }
  std::vector<HeldState> saved() const;
  // Returns all parts of the trained groups that this rank holds.
  std::vector<HeldState> held() const;
  // Loads frozen weights from `state`, and the values of held(), in its order, from host memory: see
  // ParameterStorage::restore().
  void restore(const InitialState& state, const float* values, StagedTransfers* transfers);
  static MemoryUse memory(const RankSetup& setup, const ParameterLayout& layout);

 private:
  // The group that holds a parameter of this rank, and the parameter's index in the layout of that group.
  struct Holder {
    ParameterGroup group;
    TrainedGroup* trained;  // null: the group is not trained
    HeldPart held;
  };

  StorageSetup trained_setup(const GroupLayout& group);
  ParameterStore& add_group(const GroupLayout& group, Ops& ops);
  TrainedGroup& add_trained(const GroupLayout& group, Ops& ops);
  Holder holder(const StatePart& part) const;

  const RankSetup& setup_;
  const ParameterLayout& layout_;
  TensorParallel tp_;
  const std::vector<GroupLayout> groups_;
  std::shared_ptr<Stream> transfer_;  // between replicas; null: no trained group has several
  std::vector<std::unique_ptr<TrainedGroup>> trained_;
  std::unique_ptr<FrozenWeights> frozen_;        // null: nothing is frozen
  std::unique_ptr<QuantisedWeights> quantised_;  // null: nothing is quantised
  std::optional<GroupedParameters> grouped_;     // where there are several groups
  ParameterStore* parameters_ = nullptr;
};

}  // namespace pipetrain
