// Runs over real processes: this one is one of them; the others are this same program, with the run in their environment.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tiny_run.hpp"

namespace pipetrain::test {

// Puts all ranks of this process, whose control plane the job has joined, on the GPU that has the process's number. Processes
// reach each other by the transport "ipc" or "nccl".
void use_own_gpu(TrainJob& job, const std::string& transport);

class Followers {
 public:
  // Starts all processes of the run but this one, which has the number `own`, each with these variables ("NAME=value")
  // added to its environment. TEST_FAULT is a fault; TEST_ON_GPU a transport, for use_own_gpu(); TEST_STEPS the number of
  // steps that another process runs where it is, or becomes, process 0.
  Followers(int processes, const TinyRun& tiny, const std::vector<std::string>& variables = {}, int own = 0);
  // Kills the remaining ones.
  ~Followers();
  Followers(const Followers&) = delete;
  Followers& operator=(const Followers&) = delete;

  // Returns the same job for this process. Waits until the others have joined.
  TrainJob job();
  void signal(int process, int signal);
  bool has_ended(int process) const;
  // Waits for them, 30 s at most; returns the error of each in their order, or how it ended, "" for one that succeeded.
  std::vector<std::string> wait();

 private:
  int processes_, own_;
  TinyRun tiny_;
  std::uint16_t port_;
  std::vector<pid_t> children_;  // by process; 0: this process, or one that has ended
  std::vector<std::string> logs_;
};

// Runs these steps in this process and in others that it starts, and checks that those succeed. transport: as use_own_gpu()
// takes it, or empty for ranks on the CPU.
RunRecord run_in_processes(int processes, const TinyRun& tiny, std::int64_t steps, const std::string& transport = "");

}  // namespace pipetrain::test
