// A control plane between threads or forked processes of one test, through shared memory: exchange() and numbers only.
// It has no messages and never loses a process by itself.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/control_plane.hpp"

namespace pipetrain::test {

// Make it before the threads or processes, each of which makes its plane from it. It must outlive them.
class SharedControl {
 public:
  // one_machine: whether the processes know that they are on one machine.
  explicit SharedControl(int processes, bool one_machine = true);
  ~SharedControl();
  SharedControl(const SharedControl&) = delete;
  SharedControl& operator=(const SharedControl&) = delete;

  // late: delays the time at which this process learns the result of an exchange.
  std::unique_ptr<ControlPlane> plane(int process, std::chrono::milliseconds late = {});

  // From now on the planes report this process as gone.
  void call_gone(int process);

  struct Region;

 private:
  Region* region_;
};

// Runs body(process) in this many forked processes, each of which must return. Returns the errors of the processes, one line
// each, without a process in `killed` that is killed. All are dead afterwards: one that takes longer than a minute is killed.
std::vector<std::string> in_processes(int processes, const std::function<void(int process)>& body,
                                      const std::vector<int>& killed = {});

// Throws if the condition does not hold; for other processes and threads, in which Catch2's macros do not work.
void require(bool condition, const std::string& what);

}  // namespace pipetrain::test
