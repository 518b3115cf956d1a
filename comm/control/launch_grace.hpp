// The time that a launcher waits for processes that it has asked to stop.
#pragma once

#include <chrono>
#include <optional>

#include "comm/control/launch_variables.hpp"

namespace pipetrain {

// Returns the time between SIGTERM and SIGKILL of the launchers that started this process: the shortest of the known
// ones. Open MPI: OMPI_MCA_odls_base_sigkill_timeout or PRTE_MCA_odls_base_sigkill_timeout, 1 s where neither is set.
// torchrun (TORCHELASTIC_RUN_ID): 30 s. No value where no such launcher is known; Slurm does not publish it. Throws
// Error(input) for a value that is no number.
std::optional<std::chrono::seconds> launch_grace(const control::LaunchVariables& variables);

}  // namespace pipetrain
