// Names the processes of a run by the ranks that they train.
#pragma once

#include <string>

#include "core/mesh.hpp"

namespace pipetrain {

// The ranks of a mesh, assigned in order to this many processes; each function names one process. Further processes are spare.
class ProcessLabels {
 public:
  ProcessLabels(const MeshShape& shape, int processes);

  std::string ranks(int process) const;  // "rank 1", "ranks 2-3", "spare"
  std::string label(int process) const;  // "ranks 2-3, stage 1", "rank 4, stage 0, replica 1"
  // Returns "process 2 (ranks 2-3, stage 1) on host b".
  std::string name(int process, const std::string& host) const;

 private:
  Mesh mesh_;
};

}  // namespace pipetrain
