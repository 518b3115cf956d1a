// The job of a launcher that a process belongs to, which may be the only difference between two runs on one host.
#pragma once

#include <cstdint>
#include <string>

#include "comm/control/launch_variables.hpp"

namespace pipetrain::control {

enum class LauncherKind : std::uint8_t { torchrun, open_mpi, slurm, pmi, pmix };

// Returns "Slurm", for messages.
const char* launcher_name(LauncherKind launcher);

// Returns "Slurm job 12.0": the same in all processes that this launcher has started together, and in no others. Empty
// where the launcher does not say. torchrun: TORCHELASTIC_RUN_ID, unless that is its default, "none". Open MPI:
// PMIX_NAMESPACE or OMPI_MCA_ess_base_jobid. Slurm: SLURM_JOB_ID with SLURM_STEP_ID or SLURM_STEPID. PMI: PMI_JOBID or
// I_MPI_HYDRA_UUID. PMIx: PMIX_NAMESPACE.
std::string launch_job(LauncherKind launcher, const LaunchVariables& variables);

// Returns a port from 20000 to 32767, below those that systems assign by themselves. Jobs may share one.
std::uint16_t port_of_job(const std::string& job);

}  // namespace pipetrain::control
