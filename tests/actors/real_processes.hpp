// Runs over real processes: this one is process 0; the others are this same program, with the run in their environment.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tiny_run.hpp"

namespace pipetrain::test {

// Puts the job's ranks of this process, whose control plane it has joined, on the first GPU, which the processes share;
// they communicate by "ipc" or "nccl". Since NCCL accepts a GPU only once on a host, NCCL_HOSTID makes each process a
// host of its own.
void share_gpu(TrainJob& job, const std::string& transport);

class Followers {
 public:
  // Starts processes 1 to `processes` - 1 of the run, each with these variables ("NAME=value") added to its
  // environment. TEST_FAULT is a fault; TEST_ON_GPU a transport, for share_gpu().
  Followers(int processes, const TinyRun& tiny, const std::vector<std::string>& variables = {});
  // Kills the remaining ones.
  ~Followers();
  Followers(const Followers&) = delete;
  Followers& operator=(const Followers&) = delete;

  // Returns the same job for process 0. Waits until the others have joined.
  TrainJob job();
  void signal(int process, int signal);
  // Waits for them, 30 s at most; returns what each printed on stderr or how it ended, "" for one that succeeded.
  std::vector<std::string> wait();

 private:
  int processes_;
  TinyRun tiny_;
  std::uint16_t port_;
  std::vector<pid_t> children_;
  std::vector<std::string> logs_;
};

}  // namespace pipetrain::test
