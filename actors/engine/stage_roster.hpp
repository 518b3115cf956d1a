// All stages of a run, or their remote stand-ins, as the supervisor knows them.
#pragma once

#include <iterator>
#include <string>
#include <vector>

#include "actors/engine/protocol.hpp"
#include "core/mesh.hpp"

namespace pipetrain {

// Parts of stages in the order of their ranks in the mesh {.dp = replicas, .pp = stages, .part = parts of each}.
struct StageRoster {
  Mesh mesh{MeshShape{}};
  std::vector<caf::actor> actors;

  std::size_t size() const { return actors.size(); }
  std::size_t index(const StageId& id) const { return static_cast<std::size_t>(mesh.rank(coordinate(id))); }
  StageId id(std::size_t index) const { return stage_id(mesh.at(static_cast<int>(index))); }
  const caf::actor& at(const StageId& id) const { return actors[index(id)]; }

  // Returns "stage 1, part 0 of replica 2", without what all stages have in common.
  std::string label(std::size_t index) const {
    const StageId stage = id(index);
    return "stage " + std::to_string(stage.stage) + (mesh.shape().part > 1 ? ", part " + std::to_string(stage.part) : "") +
           (mesh.shape().dp > 1 ? " of replica " + std::to_string(stage.replica) : "");
  }

  // Joins the results of the parts of each stage, in order.
  template <class Element>
  std::vector<std::vector<Element>> join_parts(std::vector<std::vector<Element>> parts) const {
    const auto each = static_cast<std::size_t>(mesh.shape().part);
    if (each == 1) return parts;
    std::vector<std::vector<Element>> stages(parts.size() / each);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      auto& stage = stages[i / each];
      stage.insert(stage.end(), std::make_move_iterator(parts[i].begin()), std::make_move_iterator(parts[i].end()));
    }
    return stages;
  }
};

}  // namespace pipetrain
