// The parts of the logical tensors that a rank saves for the run. Pure.
#pragma once

#include <cstddef>
#include <set>
#include <vector>

#include "actors/training/places/state_places.hpp"
#include "actors/training/state/storage_setup.hpp"
#include "core/mesh.hpp"

namespace pipetrain {

// True when another rank of the mesh saves this parameter: the other end's embedding for a tied weight, the first
// tensor-parallel rank for a parameter that all of them hold.
bool is_kept_elsewhere(const Parameter& parameter, int tp_rank);

// Over all ranks of a run, every element of every logical tensor is in exactly one part. Where replicas divide the
// state, each saves the ranges that it owns; else the first rank of those that have the same weights saves all.
std::vector<HeldPart> saved_parts(const StorageSetup& setup, const StatePlaces& places);
// Returns the parameters of these parts, by index in the layout.
std::set<std::size_t> saved_parameters(const StorageSetup& setup, const StatePlaces& places);
// Returns the same for frozen parameters, which replicas never divide.
std::vector<HeldPart> saved_frozen_parts(const ParameterLayout& layout, const MeshCoordinate& rank);

}  // namespace pipetrain
