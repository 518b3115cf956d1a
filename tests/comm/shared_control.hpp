// A control plane between threads or forked processes of one test, through shared memory: exchange() and numbers only. It has
// no messages and loses nobody by itself.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/control_plane.hpp"

namespace pipetrain::test {

// Made before the threads or processes; each makes its plane from it. Outlives them.
class SharedControl {
 public:
  // one_machine: whether the processes know that they share one.
  explicit SharedControl(int processes, bool one_machine = true);
  ~SharedControl();
  SharedControl(const SharedControl&) = delete;
  SharedControl& operator=(const SharedControl&) = delete;

  // late: how much later than it could this process learns what an exchange brought.
  std::unique_ptr<ControlPlane> plane(int process, std::chrono::milliseconds late = {});

  // From now on the planes call this process gone.
  void call_gone(int process);

  struct Region;

 private:
  Region* region_;
};

// Runs body(process) in as many forked processes; each is to return. Returns what went wrong in which, one line each; a process
// that is killed is none of it if it is in `killed`. All are dead afterwards: who takes longer than a minute is killed.
std::vector<std::string> in_processes(int processes, const std::function<void(int process)>& body,
                                      const std::vector<int>& killed = {});

// Throws where the condition does not hold: for bodies in other processes and threads, where Catch2 cannot look.
void require(bool condition, const std::string& what);

}  // namespace pipetrain::test
