// A Slurm of this host alone, with a configuration and daemons of its own, for tests of what srun starts.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "temp_folder.hpp"

namespace pipetrain::test {

// Its daemons end with it.
class OneNodeSlurm {
 public:
  OneNodeSlurm();
  ~OneNodeSlurm();
  OneNodeSlurm(const OneNodeSlurm&) = delete;
  OneNodeSlurm& operator=(const OneNodeSlurm&) = delete;

  // Why no job can be run; empty where one can.
  const std::string& why_not() const { return why_not_; }
  // NAME=VALUE: with it srun, squeue and scancel speak to this Slurm.
  std::string variable() const;

 private:
  void write_configuration() const;
  void start(const std::vector<std::string>& words);

  TempFolder folder_;
  std::vector<pid_t> daemons_;
  std::string why_not_;
};

}  // namespace pipetrain::test
