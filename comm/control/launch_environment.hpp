// Reads from the environment the place in a run that a launcher gives to each process that it starts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pipetrain {

struct LaunchPlace {
  std::string launcher;  // "pipetrain launch", "torchrun", "Open MPI", "Slurm", "PMI", "PMIx": for messages
  std::string where;     // the variable with this process's number, as it was given: "RANK=1"
  int process = 0;
  int processes = 0;                  // of the run; 0: the launcher does not say
  int local = 0;                      // number among the run's processes on this host
  int local_processes = 0;            // of the run on this host; 0: the launcher does not say
  std::string host;                   // of process 0; empty: the launcher does not say
  std::optional<std::uint16_t> port;  // the launcher's, else one derived from the job
  std::string job;                    // of the launcher, see launch_job(); empty: it does not say
  int attempt = 0;                    // how often pipetrain launch has restarted the run
};

// Returns no value without a launcher, and where one has started a single process. Of several nested launchers the innermost
// counts: pipetrain launch, then torchrun (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, or the
// next port where TORCHELASTIC_USE_AGENT_STORE says that torchrun listens on that one; Kubernetes operators set the same), Open
// MPI (OMPI_COMM_WORLD_*), PMI (PMI_RANK and PMI_SIZE, of MPICH's Hydra, Intel MPI and PALS), a Slurm step (SLURM_PROCID and,
// which only srun sets, SLURM_STEP_NUM_TASKS), PMIx (PMIX_RANK, which comes without a size). Throws Error(input) for impossible
// values, and where the innermost has one process and another launcher has several.
std::optional<LaunchPlace> read_launch_environment(const std::map<std::string, std::string>& environment);

// Throws Error(input), for a process without a place, if a variable is set that only makes sense with others (RANK
// without WORLD_SIZE). A job's script and the shell of salloc, which Slurm numbers too, are one process.
void refuse_incomplete_place(const std::map<std::string, std::string>& environment);

// Returns the variables of launchers that these two and launch_grace() read.
const std::vector<std::string>& launch_variables();

// The variable in which pipetrain launch gives a child its place, and its value.
inline constexpr const char* launch_variable = "PIPETRAIN_LAUNCH";
std::string launch_variable_value(const LaunchPlace& place);

// Returns the first host of Slurm's "node[03-05,9],other": node03. Throws Error(input) for an invalid list.
std::string first_slurm_host(const std::string& list);

}  // namespace pipetrain
