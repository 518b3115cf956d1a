// The place in a run that a launcher gives each process that it starts, as the environment tells it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pipetrain {

struct LaunchPlace {
  std::string launcher;  // "pipetrain launch", "torchrun", "Open MPI", "Slurm", "PMI", "PMIx": for messages
  std::string where;     // the variable that says which process this is, as it was given: "RANK=1"
  int process = 0;
  int processes = 0;                  // of the run; 0: the launcher does not tell
  int local = 0;                      // among the run's processes on this host
  int local_processes = 0;            // of the run on this host; 0: the launcher does not tell
  std::string host;                   // of process 0; empty: the launcher does not tell
  std::optional<std::uint16_t> port;  // the launcher's, else one that follows from the job
  std::string job;                    // of the launcher, see launch_job(); empty: it does not tell
  int attempt = 0;                    // how often pipetrain launch has started the run again
};

// Nothing where no launcher has spoken, and where one has started a single process. Of several that speak the innermost is
// taken: pipetrain launch, then torchrun (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, or the port
// after it where TORCHELASTIC_USE_AGENT_STORE says that torchrun listens there; Kubernetes operators set the same), Open MPI
// (OMPI_COMM_WORLD_*), PMI (PMI_RANK and PMI_SIZE, of MPICH's Hydra, Intel MPI and PALS), a Slurm step (SLURM_PROCID and, as
// only srun sets it, SLURM_STEP_NUM_TASKS), PMIx (PMIX_RANK, which comes without a size). Throws Error(input) for values that
// cannot be, and where the innermost tells of one process and another one of several.
std::optional<LaunchPlace> read_launch_environment(const std::map<std::string, std::string>& environment);

// For a process that no launcher has given a place: throws Error(input) where one of the variables is set that only make sense
// together (RANK without WORLD_SIZE). A job's script and the shell of salloc, which Slurm numbers too, are one process.
void refuse_half_told_place(const std::map<std::string, std::string>& environment);

// The variables of launchers that these two and launch_grace() read.
const std::vector<std::string>& launch_variables();

// The one by which pipetrain launch tells a child its place, and its value.
inline constexpr const char* launch_variable = "PIPETRAIN_LAUNCH";
std::string launch_variable_value(const LaunchPlace& place);

// The first host of Slurm's "node[03-05,9],other": node03. Throws Error(input) for what is no such list.
std::string first_slurm_host(const std::string& list);

}  // namespace pipetrain
