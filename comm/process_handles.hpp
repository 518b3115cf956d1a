// Handles of the processes of a run that are on this machine. A handle belongs to one process for ever, unlike its number,
// which the kernel gives to another one later.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace pipetrain {

class ControlPlane;
struct ProcessInfo;

// Processes are named by their numbers in the control plane that the handles are made from, unless others are given.
// Thread-safe, except for add().
class ProcessHandles {
 public:
  ProcessHandles() = default;  // of no process
  explicit ProcessHandles(const ControlPlane& control);
  // numbers: by process of the control plane, the numbers that name them here.
  ProcessHandles(const ControlPlane& control, const std::vector<int>& numbers);
  ~ProcessHandles();
  ProcessHandles(const ProcessHandles&) = delete;
  ProcessHandles& operator=(const ProcessHandles&) = delete;

  // Adds a process that is not in the control plane.
  void add(int number, const ProcessInfo& info);
  // True when this process has certainly ended. False for one on another machine, where nobody here can know.
  bool has_ended(int process) const;
  // Kills the process, also one that is stopped; does nothing to a process on another machine.
  void end(int process) const;

 private:
  static constexpr int unknown = -1, ended = -2;
  int handle_of(int process) const;

  std::string machine_;
  std::map<int, int> handles_;  // by process: a descriptor or one of the above
};

}  // namespace pipetrain
