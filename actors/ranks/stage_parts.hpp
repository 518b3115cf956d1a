// Divides stages into parts where the ranks of one stage run in several processes. All stages are divided alike, so
// that the lanes of neighbours correspond.
#pragma once

#include <vector>

#include "actors/engine/trace.hpp"
#include "core/mesh.hpp"

namespace pipetrain {

class StageParts {
 public:
  // A stage is one part unless the ranks of some stage run in several processes.
  explicit StageParts(Mesh mesh);

  // Returns the parts that begin with one of these ranks, in their order.
  std::vector<StageId> beginning_with(const std::vector<int>& ranks) const;
  std::vector<int> ranks_of(StageId id) const;  // in order
  // The part to which a rank of any stage, by stage_rank(), belongs, and its index among that part's ranks.
  struct PartRank {
    int part = 0, number = 0;
  };
  PartRank part_rank(int stage_rank) const;
  PartRank part_rank(const MeshCoordinate& at) const { return part_rank(stage_rank(at, mesh_.shape())); }
  int count() const { return static_cast<int>(cuts_.size()) - 1; }  // of one stage
  // Returns the mesh {.dp = replicas, .pp = stages, .part = parts}, each part in the process of its ranks.
  Mesh stage_mesh() const;

 private:
  Mesh mesh_;
  std::vector<int> cuts_;  // the first rank of each part within its stage, then the number of ranks
};

}  // namespace pipetrain
