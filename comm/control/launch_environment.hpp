// The place in a run that a launcher gives each process that it starts, as the environment tells it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pipetrain {

struct LaunchPlace {
  std::string launcher;  // "pipetrain launch", "torchrun", "Open MPI", "Slurm", "PMIx": for messages
  std::string where;     // the variable that says which process this is, as it was given: "RANK=1"
  int process = 0;
  int processes = 0;        // of the run; 0: the launcher does not tell
  int local = 0;            // among the run's processes on this host
  int local_processes = 0;  // of the run on this host; 0: the launcher does not tell
  std::string host;         // of process 0; empty: the launcher does not tell
  std::optional<std::uint16_t> port;
  int attempt = 0;  // how often pipetrain launch has started the run again
};

// Nothing where no launcher has spoken, and where one has started a single process. Of several that speak the innermost is
// taken: pipetrain launch, then torchrun (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, or the port
// after it where TORCHELASTIC_USE_AGENT_STORE says that torchrun listens there; Kubernetes operators set the same), Open MPI
// (OMPI_COMM_WORLD_*), a Slurm step (SLURM_PROCID and, as only srun sets it, SLURM_STEP_NUM_TASKS), PMIx (PMIX_RANK, which
// comes without a size). Throws Error(input) for values that cannot be.
std::optional<LaunchPlace> read_launch_environment(const std::map<std::string, std::string>& environment);

// The variables that it reads.
const std::vector<std::string>& launch_variables();

// The one by which pipetrain launch tells a child its place, and its value.
inline constexpr const char* launch_variable = "PIPETRAIN_LAUNCH";
std::string launch_variable_value(const LaunchPlace& place);

// The first host of Slurm's "node[03-05,9],other": node03. Throws Error(input) for what is no such list.
std::string first_slurm_host(const std::string& list);

}  // namespace pipetrain
