// How a process of a run is called, by the ranks that it trains.
#pragma once

#include <string>

#include "core/mesh.hpp"

namespace pipetrain {

// Ranks of a mesh dealt in order to so many processes. Each names one of them.
class ProcessLabels {
 public:
  ProcessLabels(const MeshShape& shape, int processes);

  std::string ranks(int process) const;  // "rank 1", "ranks 2-3"
  std::string label(int process) const;  // "ranks 2-3, stage 1", "rank 4, stage 0, replica 1"
  // "process 2 (ranks 2-3, stage 1) on host b"
  std::string name(int process, const std::string& host) const;

 private:
  Mesh mesh_;
};

}  // namespace pipetrain
