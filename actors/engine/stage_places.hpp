// StagePlaces says in which process each part of a pipeline's stages runs, and which chunks the stages have.
#pragma once

#include <memory>

#include "actors/engine/trace.hpp"
#include "core/mesh.hpp"
#include "schedules/plan/plan.hpp"

namespace pipetrain {

struct StagePlaces {
  std::shared_ptr<const schedules::Plan> plan;
  Mesh parts;       // {.dp = replicas, .pp = stages, .part = parts of each}
  int process = 0;  // this one

  const schedules::Placement& placement() const { return plan->placement; }
  int virtual_stages() const { return placement().virtual_stages(); }
  std::size_t index(const StageId& id) const { return static_cast<std::size_t>(parts.rank(coordinate(id))); }
  StageId id_of(int rank) const { return stage_id(parts.at(rank)); }
  int process_of(const StageId& id) const { return parts.place(parts.rank(coordinate(id))).process; }
  bool is_here(const StageId& id) const { return process_of(id) == process; }
};

}  // namespace pipetrain
