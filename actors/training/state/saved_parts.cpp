#include "actors/training/state/saved_parts.hpp"

namespace pipetrain {

bool is_kept_elsewhere(const Parameter& parameter, int tp_rank) {
  return parameter.tied_copy || (parameter.split_axis < 0 && tp_rank > 0);
}

std::vector<HeldPart> saved_parts(const ParameterLayout& layout, const StatePlaces& places, const MeshCoordinate& rank) {
  if ((rank.dp > 0 || rank.cp > 0) && !places.is_sharded()) return {};
  std::vector<HeldPart> parts = places.held();
  std::erase_if(parts, [&](const HeldPart& part) { return is_kept_elsewhere(layout.parameters[part.parameter], rank.tp); });
  return parts;
}

}  // namespace pipetrain
