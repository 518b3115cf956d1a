// Handles of the processes of a run that are on this machine. A handle belongs to one process for ever, unlike its number,
// which the kernel gives to another one later.
#pragma once

#include <vector>

namespace pipetrain {

class ControlPlane;

// Processes are named by their numbers in the control plane that the handles are made from. Thread-safe.
class ProcessHandles {
 public:
  explicit ProcessHandles(const ControlPlane& control);
  ~ProcessHandles();
  ProcessHandles(const ProcessHandles&) = delete;
  ProcessHandles& operator=(const ProcessHandles&) = delete;

  // True when this process has certainly ended. False for one on another machine, where nobody here can know.
  bool has_ended(int process) const;
  // Kills the process, also one that is stopped; does nothing to a process on another machine.
  void end(int process) const;

 private:
  static constexpr int unknown = -1, ended = -2;
  std::vector<int> handles_;  // by process: a descriptor or one of the above
};

}  // namespace pipetrain
