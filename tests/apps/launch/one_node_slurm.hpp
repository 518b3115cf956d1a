// A Slurm for this host alone, with its own configuration and daemons, for tests of processes that srun starts.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "temp_folder.hpp"

namespace pipetrain::test {

// Its daemons end with the object.
class OneNodeSlurm {
 public:
  OneNodeSlurm();
  ~OneNodeSlurm();
  OneNodeSlurm(const OneNodeSlurm&) = delete;
  OneNodeSlurm& operator=(const OneNodeSlurm&) = delete;

  // Returns why no job can be run; empty if one can.
  const std::string& why_not() const { return why_not_; }
  // Returns NAME=VALUE, with which srun, squeue and scancel use this Slurm.
  std::string variable() const;

 private:
  void write_configuration() const;
  void start(const std::vector<std::string>& words);

  TempFolder folder_;
  std::vector<pid_t> daemons_;
  std::string why_not_;
};

}  // namespace pipetrain::test
