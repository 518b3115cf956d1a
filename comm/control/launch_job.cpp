#include "comm/control/launch_job.hpp"

#include <fmt/format.h>

#include <initializer_list>

namespace pipetrain::control {

namespace {

std::string first_set(const LaunchVariables& variables, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const std::string* value = find_variable(variables, name)) return *value;
  return "";
}

std::string job_number(LauncherKind launcher, const LaunchVariables& variables) {
  switch (launcher) {
    case LauncherKind::torchrun: {
      const std::string run = first_set(variables, {"TORCHELASTIC_RUN_ID"});
      return run == "none" ? "" : run;
    }
    case LauncherKind::open_mpi:
      return first_set(variables, {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"});
    case LauncherKind::slurm: {
      const std::string job = first_set(variables, {"SLURM_JOB_ID"});
      const std::string step = first_set(variables, {"SLURM_STEP_ID", "SLURM_STEPID"});
      return job.empty() || step.empty() ? "" : job + "." + step;
    }
    case LauncherKind::pmi:
      return first_set(variables, {"PMI_JOBID", "I_MPI_HYDRA_UUID"});
    case LauncherKind::pmix:
      return first_set(variables, {"PMIX_NAMESPACE"});
  }
  return "";
}

}  // namespace

const char* launcher_name(LauncherKind launcher) {
  switch (launcher) {
    case LauncherKind::torchrun:
      return "torchrun";
    case LauncherKind::open_mpi:
      return "Open MPI";
    case LauncherKind::slurm:
      return "Slurm";
    case LauncherKind::pmi:
      return "PMI";
    case LauncherKind::pmix:
      return "PMIx";
  }
  return "";
}

std::string launch_job(LauncherKind launcher, const LaunchVariables& variables) {
  const std::string number = job_number(launcher, variables);
  return number.empty() ? "" : fmt::format("{} job {}", launcher_name(launcher), number);
}

std::uint16_t port_of_job(const std::string& job) {
  constexpr std::uint64_t first = 20000, end = 32768;
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a: the same in every build and on every host
  for (const char letter : job) hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211U;
  return static_cast<std::uint16_t>(first + hash % (end - first));
}

}  // namespace pipetrain::control
