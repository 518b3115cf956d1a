#include "comm/control/launch_grace.hpp"

#include <algorithm>

namespace pipetrain {

std::optional<std::chrono::seconds> launch_grace(const control::LaunchVariables& variables) {
  constexpr std::chrono::seconds open_mpi_default{1}, torchrun_default{30};
  std::optional<std::chrono::seconds> shortest;
  const auto add = [&](std::chrono::seconds grace) { shortest = shortest ? std::min(*shortest, grace) : grace; };
  if (control::find_variable(variables, "OMPI_COMM_WORLD_RANK")) {
    std::chrono::seconds grace = open_mpi_default;
    for (const char* name : {"PRTE_MCA_odls_base_sigkill_timeout", "OMPI_MCA_odls_base_sigkill_timeout"})
      if (const auto given = control::number_variable(variables, name)) grace = std::chrono::seconds(*given);
    add(grace);
  }
  if (control::find_variable(variables, "TORCHELASTIC_RUN_ID")) add(torchrun_default);
  return shortest;
}

}  // namespace pipetrain
