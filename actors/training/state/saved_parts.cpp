#include "actors/training/state/saved_parts.hpp"

namespace pipetrain {

bool is_kept_elsewhere(const Parameter& parameter, int tp_rank) {
  return parameter.tied_copy || parameter.copy > 0 || (parameter.split_axis < 0 && tp_rank > 0);
}

namespace {

std::vector<HeldPart> without_others(std::vector<HeldPart> parts, const ParameterLayout& layout, const MeshCoordinate& rank) {
  std::erase_if(parts, [&](const HeldPart& part) { return is_kept_elsewhere(layout.parameters[part.parameter], rank.tp); });
  return parts;
}

}  // namespace

std::vector<HeldPart> saved_parts(const StorageSetup& setup, const StatePlaces& places) {
  if (setup.copy > 0 && !places.is_sharded()) return {};
  return without_others(places.held(), setup.layout, setup.rank);
}

std::set<std::size_t> saved_parameters(const StorageSetup& setup, const StatePlaces& places) {
  std::set<std::size_t> parameters;
  for (const HeldPart& part : saved_parts(setup, places)) parameters.insert(part.parameter);
  return parameters;
}

std::vector<HeldPart> saved_frozen_parts(const ParameterLayout& layout, const MeshCoordinate& rank) {
  if (rank.dp > 0 || rank.cp > 0) return {};
  std::vector<HeldPart> parts = without_others(whole_parameters(layout), layout, rank);
  if (rank.ep > 0) std::erase_if(parts, [&](const HeldPart& part) { return layout.parameters[part.parameter].expert < 0; });
  return parts;
}

}  // namespace pipetrain
