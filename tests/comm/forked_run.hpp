// Processes of a run as real processes: children of the test, which is one of them itself.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "comm/control/control_fixture.hpp"

namespace pipetrain::test {

// Each child joins, writes the processes that it loses, echoes every message of Channel::transport to its sender,
// exchanges under the key that it gets as a message of Channel::run (and writes how that ends), and leaves when that
// message is "leave". Make it while the test has one thread only.
class ForkedRun {
 public:
  // The test itself is process `here`, or none of them (-1).
  ForkedRun(int processes, int here);
  ~ForkedRun();
  ForkedRun(const ForkedRun&) = delete;
  ForkedRun& operator=(const ForkedRun&) = delete;

  ControlPlane& plane() { return *plane_; }
  // The losses that this process noticed: "2: its connection ...".
  Notes& losses() { return losses_; }
  // Returns the next line of a child; "silence" if it writes none for 30 s, "end" if it has ended.
  std::string line(int process);
  void signal(int process, int number);
  // Waits for its end. Returns its exit status, or -signal.
  int status(int process);

 private:
  struct Child {
    pid_t pid = -1;
    int pipe = -1;
    std::string read;
  };
  [[noreturn]] static void live(int process, int processes, std::uint16_t port, int pipe);

  std::vector<Child> children_;
  Notes losses_;
  std::unique_ptr<ControlPlane> plane_;
};

}  // namespace pipetrain::test
