#include "comm/control/launch_environment.hpp"

#include <fmt/format.h>

#include <limits>
#include <string_view>

#include "comm/control/launch_job.hpp"
#include "comm/control/launch_variables.hpp"

namespace pipetrain {

using control::fail_environment;
using control::find_variable;
using control::LauncherKind;

namespace {

using Variables = control::LaunchVariables;

std::string given(const Variables& variables, const char* name) { return control::given_variable(variables, name); }
std::optional<int> number(std::string_view text) { return control::parse_number(text); }
std::optional<int> number_of(const Variables& variables, const char* name) { return control::number_variable(variables, name); }

// The names of a launcher's variables.
struct Names {
  LauncherKind launcher;
  const char *process, *processes, *local, *local_processes;
};
constexpr Names torchrun{LauncherKind::torchrun, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Names open_mpi{LauncherKind::open_mpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                         "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Names slurm{LauncherKind::slurm, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr};
constexpr Names hydra{LauncherKind::pmi, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
constexpr Names pals{LauncherKind::pmi, "PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"};

void check_place(const Variables& variables, const Names& names, const LaunchPlace& place) {
  if (place.process >= place.processes)
    fail_environment(place.where, fmt::format("{} says that there are {} processes, counted from 0",
                                              given(variables, names.processes), place.processes));
  if (place.local_processes > 0 && place.local >= place.local_processes)
    fail_environment(given(variables, names.local),
                     fmt::format("{} says that there are {} of them, counted from 0", given(variables, names.local_processes),
                                 place.local_processes));
}

// Both the number of the process and the number of processes must be set.
std::optional<LaunchPlace> read(const Variables& variables, const Names& names) {
  const auto process = number_of(variables, names.process), processes = number_of(variables, names.processes);
  if (!process || !processes) return std::nullopt;
  LaunchPlace place;
  place.launcher = control::launcher_name(names.launcher);
  place.job = control::launch_job(names.launcher, variables);
  if (!place.job.empty()) place.port = control::port_of_job(place.job);
  place.where = given(variables, names.process);
  place.process = *process;
  place.processes = *processes;
  place.local = number_of(variables, names.local).value_or(0);
  if (names.local_processes) place.local_processes = number_of(variables, names.local_processes).value_or(0);
  check_place(variables, names, place);
  return place;
}

std::uint16_t port_of(const std::string& where, std::string_view text) {
  const auto port = number(text);
  if (!port || *port < 1 || *port > std::numeric_limits<std::uint16_t>::max())
    fail_environment(where, "must be a port from 1 to 65535");
  return static_cast<std::uint16_t>(*port);
}

std::optional<LaunchPlace> read_torchrun(const Variables& variables) {
  auto place = read(variables, torchrun);
  if (!place) return std::nullopt;
  if (const std::string* host = find_variable(variables, "MASTER_ADDR")) place->host = *host;
  if (const std::string* port = find_variable(variables, "MASTER_PORT"))
    place->port = port_of(given(variables, "MASTER_PORT"), *port);
  // torchrun's own process then listens on that port.
  const std::string* taken = find_variable(variables, "TORCHELASTIC_USE_AGENT_STORE");
  if (taken && *taken == "True" && place->port)
    place->port = static_cast<std::uint16_t>(*place->port == 65535 ? 65534 : *place->port + 1);
  return place;
}

// Where all processes are on one host, that host is the master.
std::optional<LaunchPlace> read_open_mpi(const Variables& variables) {
  auto place = read(variables, open_mpi);
  if (place && place->local_processes == place->processes) place->host = "127.0.0.1";
  return place;
}

std::optional<LaunchPlace> read_slurm(const Variables& variables) {
  auto place = read(variables, slurm);
  if (!place) return std::nullopt;
  if (number_of(variables, "SLURM_STEP_NUM_NODES") == 1) {
    place->local_processes = place->processes;
    place->host = "127.0.0.1";
  } else if (const std::string* nodes = find_variable(variables, "SLURM_STEP_NODELIST")) {
    place->host = first_slurm_host(*nodes);
  }
  return place;
}

// srun sets these too, for programs that it starts with --mpi=pmi2; its own variables say more.
std::optional<LaunchPlace> read_pmi(const Variables& variables) {
  auto place = read(variables, find_variable(variables, hydra.local_processes) ? hydra : pals);
  if (!place) return std::nullopt;
  const auto by_slurm = read(variables, slurm);
  if (by_slurm && by_slurm->process == place->process && by_slurm->processes == place->processes) return std::nullopt;
  if (place->local_processes == place->processes) place->host = "127.0.0.1";
  return place;
}

std::optional<LaunchPlace> read_pmix(const Variables& variables) {
  const auto process = number_of(variables, "PMIX_RANK");
  if (!process) return std::nullopt;
  LaunchPlace place;
  place.launcher = control::launcher_name(LauncherKind::pmix);
  place.job = control::launch_job(LauncherKind::pmix, variables);
  if (!place.job.empty()) place.port = control::port_of_job(place.job);
  place.where = given(variables, "PMIX_RANK");
  place.process = *process;
  return place;
}

// Reads "1/4 1/2 0 127.0.0.1 29500": process, local process, attempt, host, port.
std::optional<LaunchPlace> read_launch(const Variables& variables) {
  const std::string* text = find_variable(variables, launch_variable);
  if (!text) return std::nullopt;
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at <= text->size();) {
    const std::size_t end = std::min(text->find_first_of("/ ", at), text->size());
    words.push_back(std::string_view(*text).substr(at, end - at));
    at = end + 1;
  }
  std::vector<int> numbers;
  for (std::size_t i = 0; i < words.size() && i < 5; ++i)
    if (const auto value = number(words[i])) numbers.push_back(*value);
  if (words.size() != 7 || numbers.size() != 5 || numbers[0] >= numbers[1] || numbers[2] >= numbers[3])
    fail_environment(given(variables, launch_variable), "is for pipetrain launch to set; leave it out");
  LaunchPlace place;
  place.launcher = "pipetrain launch";
  place.where = fmt::format("{} {}", place.launcher, words[0]);
  place.process = numbers[0], place.processes = numbers[1];
  place.local = numbers[2], place.local_processes = numbers[3];
  place.attempt = numbers[4];
  place.host = words[5];
  place.port = port_of(given(variables, launch_variable), words[6]);
  return place;
}

// Refuses a launch of one process inside a launch of several: each of these would train the whole run alone.
void check_nesting(const LaunchPlace& inner, const LaunchPlace& outer) {
  if (inner.processes != 1 || outer.processes <= 1) return;
  fail_environment(
      inner.where,
      fmt::format("{} describes a run of one process, but {} one of {} ({}); unset the variables of the one that has not "
                  "started this process",
                  inner.launcher, outer.launcher, outer.processes, outer.where));
}

// True for a process of a step of srun. The script of a job and the shell of salloc have SLURM_PROCID=0 too, but their
// step numbers, if any, exceed an int.
bool is_slurm_task(const Variables& variables) {
  for (const char* name : {"SLURM_STEP_ID", "SLURM_STEPID"}) {
    const std::string* step = find_variable(variables, name);
    if (step && number(*step)) return true;
  }
  return number_of(variables, slurm.process).value_or(0) > 0;
}

void refuse_half(const Variables& variables, const Names& names) {
  const auto process = number_of(variables, names.process), processes = number_of(variables, names.processes);
  const auto fail = [&](const char* told, const char* missing) {
    fail_environment(
        given(variables, told),
        fmt::format("{} is not set, so this process cannot know its place in a run; set both, or unset this one to run one "
                    "process alone",
                    missing));
  };
  if (process && !processes && (names.launcher != LauncherKind::slurm || is_slurm_task(variables)))
    fail(names.process, names.processes);
  if (!process && processes.value_or(1) > 1) fail(names.processes, names.process);
}

}  // namespace

std::optional<LaunchPlace> read_launch_environment(const Variables& environment) {
  if (const auto place = read_launch(environment)) return place;
  std::optional<LaunchPlace> inner;
  for (const auto reader : {read_torchrun, read_open_mpi, read_pmi, read_slurm, read_pmix}) {
    auto place = reader(environment);
    if (!place) continue;
    if (inner) check_nesting(*inner, *place);
    if (!inner) inner = std::move(place);
  }
  return inner && inner->processes == 1 ? std::nullopt : inner;
}

void refuse_incomplete_place(const Variables& environment) {
  for (const Names& names : {torchrun, open_mpi, slurm, hydra}) refuse_half(environment, names);
}

const std::vector<std::string>& launch_variables() {
  static const std::vector<std::string> names = {launch_variable,
                                                 "RANK",
                                                 "WORLD_SIZE",
                                                 "LOCAL_RANK",
                                                 "LOCAL_WORLD_SIZE",
                                                 "MASTER_ADDR",
                                                 "MASTER_PORT",
                                                 "TORCHELASTIC_USE_AGENT_STORE",
                                                 "TORCHELASTIC_RUN_ID",
                                                 "OMPI_COMM_WORLD_RANK",
                                                 "OMPI_COMM_WORLD_SIZE",
                                                 "OMPI_COMM_WORLD_LOCAL_RANK",
                                                 "OMPI_COMM_WORLD_LOCAL_SIZE",
                                                 "OMPI_MCA_ess_base_jobid",
                                                 "OMPI_MCA_odls_base_sigkill_timeout",
                                                 "PRTE_MCA_odls_base_sigkill_timeout",
                                                 "SLURM_JOB_ID",
                                                 "SLURM_STEP_ID",
                                                 "SLURM_STEPID",
                                                 "SLURM_PROCID",
                                                 "SLURM_LOCALID",
                                                 "SLURM_STEP_NUM_TASKS",
                                                 "SLURM_STEP_NUM_NODES",
                                                 "SLURM_STEP_NODELIST",
                                                 "PMI_RANK",
                                                 "PMI_SIZE",
                                                 "PMI_LOCAL_RANK",
                                                 "PMI_LOCAL_SIZE",
                                                 "MPI_LOCALRANKID",
                                                 "MPI_LOCALNRANKS",
                                                 "PMI_JOBID",
                                                 "I_MPI_HYDRA_UUID",
                                                 "PMIX_RANK",
                                                 "PMIX_NAMESPACE"};
  return names;
}

std::string launch_variable_value(const LaunchPlace& place) {
  return fmt::format("{}/{} {}/{} {} {} {}", place.process, place.processes, place.local, place.local_processes, place.attempt,
                     place.host, place.port.value_or(0));
}

std::string first_slurm_host(const std::string& list) {
  const std::size_t end = list.find_first_of(",[");
  const std::string name = list.substr(0, end);
  if (end == std::string::npos || list[end] == ',') {
    if (name.empty()) fail_environment(list, "is no list of hosts, such as node[01-04]");
    return name;
  }
  const std::size_t close = list.find(']', end), digits = list.find_first_of("-,]", end);
  if (close == std::string::npos || digits == end + 1) fail_environment(list, "is no list of hosts, such as node[01-04]");
  const std::size_t next = list.find(',', close);
  return name + list.substr(end + 1, digits - end - 1) +
         list.substr(close + 1, next == std::string::npos ? next : next - close - 1);
}

}  // namespace pipetrain
