#include "comm/control/launch_environment.hpp"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <string_view>

#include "core/error.hpp"

namespace pipetrain {

namespace {

using Variables = std::map<std::string, std::string>;

[[noreturn]] void fail_environment(const std::string& where, const std::string& why) {
  throw Error(ErrorKind::input, fmt::format("{}: {}", where, why));
}

const std::string* find_variable(const Variables& variables, const char* name) {
  const auto found = variables.find(name);
  return found == variables.end() || found->second.empty() ? nullptr : &found->second;
}

std::string given(const Variables& variables, const char* name) { return fmt::format("{}={}", name, variables.at(name)); }

std::optional<int> number(std::string_view text) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::optional<int> number_of(const Variables& variables, const char* name) {
  const std::string* text = find_variable(variables, name);
  if (!text) return std::nullopt;
  const auto value = number(*text);
  if (!value) fail_environment(given(variables, name), "must be a number of at least 0; the launcher sets it");
  return value;
}

// How a launcher calls what it tells.
struct Names {
  const char* launcher;
  const char *process, *processes, *local, *local_processes;
};
constexpr Names torchrun{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Names open_mpi{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                         "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Names slurm{"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr};

void check_place(const Variables& variables, const Names& names, const LaunchPlace& place) {
  if (place.process >= place.processes)
    fail_environment(place.where, fmt::format("{} says that there are {} processes, counted from 0",
                                              given(variables, names.processes), place.processes));
  if (place.local_processes > 0 && place.local >= place.local_processes)
    fail_environment(given(variables, names.local),
                     fmt::format("{} says that there are {} of them, counted from 0", given(variables, names.local_processes),
                                 place.local_processes));
}

// Both the number of the process and how many there are must be told.
std::optional<LaunchPlace> read(const Variables& variables, const Names& names) {
  const auto process = number_of(variables, names.process), processes = number_of(variables, names.processes);
  if (!process || !processes) return std::nullopt;
  LaunchPlace place;
  place.launcher = names.launcher;
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
  // torchrun's own process then listens at that port.
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

std::optional<LaunchPlace> read_pmix(const Variables& variables) {
  const auto process = number_of(variables, "PMIX_RANK");
  if (!process) return std::nullopt;
  LaunchPlace place;
  place.launcher = "PMIx";
  place.where = given(variables, "PMIX_RANK");
  place.process = *process;
  return place;
}

// "1/4 1/2 0 127.0.0.1 29500": process, local process, attempt, host, port.
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

}  // namespace

std::optional<LaunchPlace> read_launch_environment(const Variables& environment) {
  for (const auto reader : {read_launch, read_torchrun, read_open_mpi, read_slurm, read_pmix})
    if (const auto place = reader(environment)) {
      const bool alone = place->processes == 1 && place->launcher != "pipetrain launch";
      return alone ? std::nullopt : place;
    }
  return std::nullopt;
}

const std::vector<std::string>& launch_variables() {
  static const std::vector<std::string> names = {launch_variable,        "RANK",
                                                 "WORLD_SIZE",           "LOCAL_RANK",
                                                 "LOCAL_WORLD_SIZE",     "MASTER_ADDR",
                                                 "MASTER_PORT",          "OMPI_COMM_WORLD_RANK",
                                                 "OMPI_COMM_WORLD_SIZE", "SLURM_PROCID",
                                                 "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_LOCAL_RANK",
                                                 "SLURM_LOCALID",        "PMIX_RANK",
                                                 "SLURM_STEP_NUM_NODES", "OMPI_COMM_WORLD_LOCAL_SIZE",
                                                 "SLURM_STEP_NODELIST",  "TORCHELASTIC_USE_AGENT_STORE"};
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
