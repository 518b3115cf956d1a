#include "actors/training/rank/reference_weights.hpp"

namespace pipetrain {
namespace {

FrozenWeights::Setup copy_setup(const RankSetup& setup, const ParameterLayout& layout) {
  return {.layout = layout, .rank = setup.id, .type = setup.numerics.precision.compute, .saves = false};
}

bool is_stored(const RankSetup& setup) { return setup.preference.reference_model == ReferenceModel::stored; }

}  // namespace

bool ReferenceWeights::are_needed(const RankSetup& setup) {
  return setup.config.preference && setup.config.preference->has_reference();
}

ReferenceWeights::ReferenceWeights(const RankSetup& setup, const ParameterLayout& layout, GroupStorages& model,
                                   Stream& stream) {
  if (is_stored(setup)) {
    copies_.push_back(std::make_unique<FrozenWeights>(copy_setup(setup, layout), stream));
    return;
  }
  std::vector<GroupedParameters::Member> members = model.untrained();
  for (const auto& trained : model.trained()) {
    copies_.push_back(std::make_unique<FrozenWeights>(copy_setup(setup, trained->of.layout), stream));
    members.push_back({trained->of, copies_.back()->weights()});
  }
  grouped_.emplace(layout, std::move(members));
}

void ReferenceWeights::load(const WeightSource& source) {
  for (const auto& copy : copies_) copy->load(source);
}

MemoryUse ReferenceWeights::memory(const RankSetup& setup, const ParameterLayout& layout) {
  if (is_stored(setup)) return FrozenWeights::memory(copy_setup(setup, layout));
  MemoryUse use;
  for (const GroupLayout& group : group_layouts(layout))
    if (is_trained(group.group)) use += FrozenWeights::memory(copy_setup(setup, group.layout));
  return use;
}

}  // namespace pipetrain
