// Which parts of the logical tensors a rank saves on behalf of the whole run. Pure.
#pragma once

#include <vector>

#include "actors/training/state/state_places.hpp"
#include "core/mesh.hpp"

namespace pipetrain {

// Whether another place of the mesh answers for this parameter: the embedding for the other end of a tie, the first
// tensor-parallel rank for what all of them hold.
bool is_kept_elsewhere(const Parameter& parameter, int tp_rank);

// Over all ranks of a run, every element of every logical tensor is in exactly one part. Where replicas divide the state each
// saves what it owns, else the first replica's first part of sequences saves all.
std::vector<HeldPart> saved_parts(const ParameterLayout& layout, const StatePlaces& places, const MeshCoordinate& rank);
// Likewise of frozen parameters, which replicas never divide.
std::vector<HeldPart> saved_frozen_parts(const ParameterLayout& layout, const MeshCoordinate& rank);

}  // namespace pipetrain
