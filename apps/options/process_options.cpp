#include "apps/options/process_options.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "apps/options/option_files.hpp"
#include "apps/options/run_address.hpp"
#include "comm/control/launch_grace.hpp"
#include "core/counted.hpp"
#include "core/error.hpp"
#include "core/parsing.hpp"
#include "files/file_io.hpp"

namespace pipetrain {

namespace {

constexpr const char* or_alone = ", or give --nnodes 1 where each process is to be a run of its own";
constexpr const char* read_token_variable = "PIPETRAIN_TOKEN";

using Environment = std::map<std::string, std::string>;

// Returns the first line of a file that only its owner should be able to read.
std::string read_token_file(const OptionValues& values, const std::string& file) {
  constexpr std::size_t longest = 4096;
  check_input_file(values, "token-file");
  std::string token;
  try {
    const InputFile in(file);
    token.resize(std::min<std::size_t>(in.size(), longest + 2));  // with the end of its line
    in.read_at(0, token.data(), token.size());
  } catch (const Error& error) {
    values.fail("token-file", fmt::format("the run's token cannot be read: {}", error.what()));
  }
  token.resize(std::min(token.find('\n'), token.size()));
  if (token.ends_with('\r')) token.pop_back();
  if (token.empty() || token.size() > longest)
    values.fail("token-file", fmt::format("its first line must be the run's token, of 1 to {} bytes", longest));
  return token;
}

// The option wins over the environment, as everywhere.
std::string read_token(const OptionValues& values, const Environment& environment) {
  if (const auto file = values.text("token-file")) return read_token_file(values, *file);
  const auto variable = environment.find(read_token_variable);
  return variable == environment.end() ? "" : variable->second;
}

// Returns notes on the weaknesses of the token of a run with several processes. A run without a token has none, because it
// cannot be reached from other hosts.
std::vector<std::string> token_notes(const OptionValues& values, const std::string& token) {
  constexpr std::size_t shortest_token = 16;
  std::vector<std::string> notes;
  const auto file = values.text("token-file");
  struct stat status {};
  if (file && ::stat(file->c_str(), &status) == 0 && S_ISREG(status.st_mode) && (status.st_mode & (S_IRGRP | S_IROTH)) != 0)
    notes.push_back(fmt::format("{}: other users of this host can read the run's token; remove that permission (chmod 600)",
                                values.where("token-file")));
  if (!token.empty() && token.size() < shortest_token)
    notes.push_back(fmt::format("{}: a token of {} can be guessed; give one of {} bytes or more",
                                file ? values.where("token-file") : read_token_variable,
                                counted(static_cast<std::int64_t>(token.size()), "byte"), shortest_token));
  return notes;
}

void check_token(const std::string& where, const MasterAddress& master, const std::string& token) {
  if (token.empty() && !is_loopback(master.host))
    throw Error(
        ErrorKind::input,
        fmt::format(
            "{}: {} is reached from other hosts, so the run needs a token; give every process the same by --token-file FILE or {}",
            where, master.host, read_token_variable));
}

std::optional<MasterAddress> read_master(const OptionValues& values) {
  const auto text = values.text("master");
  if (!text) return std::nullopt;
  const auto master = parse_master(*text);
  if (!master) values.fail("master", "must be HOST:PORT, such as 10.0.0.1:29500, with a port from 1 to 65535");
  return master;
}

// `way_out` is one more thing to do about it, or empty.
void check_processes(const std::string& where, int processes, std::int64_t ranks, const char* way_out = "") {
  if (processes > ranks)
    throw Error(
        ErrorKind::input,
        fmt::format(
            "{}: {} for {}: each process needs one at least; use fewer processes, or raise --pp, --tp or (in training) --dp{}",
            where, counted(processes, "process", "es"), counted(ranks, "rank"), way_out));
}

int read_nnodes(const OptionValues& values) { return static_cast<int>(values.integer("nnodes").value_or(1)); }

int read_node_rank(const OptionValues& values, int nnodes) {
  const auto rank = values.integer("node-rank");
  if (rank && *rank >= nnodes)
    values.fail("node-rank", fmt::format("--nnodes is {}, and nodes count from 0; use one below it", nnodes));
  if (!rank && nnodes > 1) values.fail("nnodes", "--node-rank is missing; give each node its own, from 0");
  return static_cast<int>(rank.value_or(0));
}

// --nnodes 1 makes this process a run of its own, whatever has started it, but for pipetrain launch, whose --nnodes its
// processes are given too. So the tasks of a launcher can train a run each.
std::optional<LaunchPlace> place_of_launcher(const OptionValues& values, const Environment& environment) {
  const bool alone = values.given("nnodes") && read_nnodes(values) == 1 && !environment.contains(launch_variable);
  return alone ? std::nullopt : read_launch_environment(environment);
}

// Given by hand: one process on every node.
void place_by_hand(const OptionValues& values, ProcessOptions& options) {
  options.processes = read_nnodes(values);
  options.process = read_node_rank(values, options.processes);
  const auto master = read_master(values);
  if (options.several() && !master) values.fail("nnodes", "--master HOST:PORT is missing; give every node the same");
  if (!options.several() && master) values.fail("master", "this run has one process; give --nnodes and --node-rank too");
  if (master) options.master = *master;
}

// Places the process as a launcher of another system says. Options may add what the launcher does not set.
void place_by_launcher(const OptionValues& values, const LaunchPlace& place, ProcessOptions& options) {
  options.process = place.process;
  options.processes = place.processes;
  if (place.processes == 0) {
    if (!values.given("nnodes"))
      throw Error(ErrorKind::input, fmt::format("{}: {} does not say how many processes there are; give --nnodes N{}",
                                                place.where, place.launcher, or_alone));
    options.processes = read_nnodes(values);
    if (place.process >= options.processes)
      values.fail("nnodes", fmt::format("{} says that this is process {}, counted from 0", place.launcher, place.process));
  } else if (values.given("nnodes")) {
    values.fail("nnodes", fmt::format("{} sets the processes ({}); leave it out", place.launcher, place.where));
  }
  if (values.given("node-rank"))
    values.fail("node-rank", fmt::format("{} sets the processes ({}); leave it out", place.launcher, place.where));
  options.local = place.local;
  options.locals = place.local_processes;
  const auto master = read_master(values);
  if (!master && place.host.empty() && options.several())
    throw Error(ErrorKind::input, fmt::format("{}: {} does not say where process 0 is; give --master HOST:PORT{}", place.where,
                                              place.launcher, or_alone));
  options.job = place.job;
  if (!place.host.empty()) options.master.host = place.host;
  if (place.port) options.master.port = *place.port;
  if (master) options.master = *master;
}

std::optional<TransportKind> read_transport(const OptionValues& values, bool several) {
  const auto choice = values.choice("transport").value_or(0);
  if (choice == 0) return std::nullopt;
  if (choice == 1 && several) values.fail("transport", "is within one process, and this run has several; use auto");
  if (choice > 1 && !several)
    values.fail("transport", "is between processes, and this run has one; use auto, or start several (pipetrain launch)");
  constexpr TransportKind kinds[] = {TransportKind::ipc, TransportKind::nccl, TransportKind::nccl_put, TransportKind::nccl_send,
                                     TransportKind::ucx};
  return choice == 1 ? std::nullopt : std::optional(kinds[choice - 2]);
}

std::chrono::seconds read_timeout(const OptionValues& values) {
  const auto given = values.integer("rendezvous-timeout");
  return given ? std::chrono::seconds(*given) : ProcessOptions{}.timeout;
}

std::optional<std::chrono::seconds> read_stop_grace(const OptionValues& values, const Environment& environment) {
  if (const auto given = values.integer("stop-grace")) return std::chrono::seconds(*given);
  return launch_grace(environment);
}

int read_preempt_signal(const OptionValues& values) { return values.choice("preempt-signal") == 1 ? SIGTERM : SIGUSR2; }

// Guesses the number of processes on this host and the index of this one among them if the launcher does not give them.
void guess_locals(ProcessOptions& options) {
  if (options.locals == 0) options.locals = is_loopback(options.master.host) ? options.processes : options.local + 1;
  if (is_loopback(options.master.host) && options.locals == options.processes) options.local = options.process;
}

// Throws Error(input) for options of pipetrain launch. Processes that pipetrain launch has started do not call it.
void refuse_launch_options(const OptionValues& values) {
  for (const char* name : {"nproc", "restart", "restart-processes"})
    if (values.given(name)) values.fail(name, "belongs to pipetrain launch; use that command, or leave it out");
}

// Reads where the run is that this process joins, and its token where no other is given.
std::optional<MasterAddress> read_join(const OptionValues& values, std::string& token) {
  const auto run = values.text("join");
  if (!run) return {};
  for (const char* name : {"nnodes", "node-rank", "master"})
    if (values.given(name))
      values.fail(name, "places a process of a run that begins, and --join joins one that has begun; leave one out");
  std::string door = *run;
  std::error_code none;
  if (std::filesystem::is_directory(*run, none)) {
    const auto address = read_run_address(*run);
    if (!address)
      values.fail("join",
                  "no run that others may join saves there now; give the --save folder of a live run with --elastic takeover");
    door = address->door;
    if (token.empty()) token = address->token;
  }
  const auto master = parse_master(door);
  if (!master || door.find(':') == std::string::npos)
    values.fail("join", "must be the --save folder of a live run, or HOST:PORT as the file run.address there has it");
  if (token.empty() && !is_loopback(master->host))
    values.fail("join", "the run's token is missing; give it by --token-file FILE or PIPETRAIN_TOKEN");
  return master;
}

}  // namespace

std::optional<MasterAddress> parse_master(const std::string& text) {
  MasterAddress master;
  std::string_view view = text, port;
  if (view.starts_with('[')) {
    const std::size_t close = view.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    master.host = view.substr(1, close - 1);
    view.remove_prefix(close + 1);
    if (!view.empty() && !view.starts_with(':')) return std::nullopt;
    if (!view.empty()) port = view.substr(1);
    if (view == ":") return std::nullopt;
  } else {
    const std::size_t colon = view.find(':');
    master.host = view.substr(0, colon);
    if (colon != std::string_view::npos && colon + 1 == view.size()) return std::nullopt;
    if (colon != std::string_view::npos) port = view.substr(colon + 1);
  }
  if (master.host.empty() || master.host.find_first_of(" \t/") != std::string::npos) return std::nullopt;
  if (port.empty()) return master;
  const auto number = number_from<std::uint16_t>(port);
  if (!number || *number < 1) return std::nullopt;
  master.port = *number;
  return master;
}

bool is_loopback(const std::string& host) {
  const bool numeric = host.find_first_not_of("0123456789.") == std::string::npos;
  return host == "localhost" || host == "::1" || (numeric && host.starts_with("127."));
}

ProcessOptions read_processes(const OptionValues& values, const Environment& environment, std::int64_t ranks) {
  ProcessOptions options;
  options.timeout = read_timeout(values);
  options.token = read_token(values, environment);
  options.token_from_file = values.given("token-file");
  options.join = read_join(values, options.token);
  const auto place =
      options.join && !environment.contains(launch_variable) ? std::nullopt : place_of_launcher(values, environment);
  const bool launched = place && place->launcher == "pipetrain launch";  // which has read the options that say where
  if (launched) {
    options.process = place->process, options.processes = place->processes;
    options.local = place->local, options.locals = place->local_processes;
    options.master = {place->host, place->port.value_or(options.master.port)};
    options.attempt = place->attempt;
  } else if (options.join) {
    refuse_launch_options(values);
  } else {
    refuse_launch_options(values);
    if (!place && !values.given("nnodes")) refuse_incomplete_place(environment);
    place ? place_by_launcher(values, *place, options) : place_by_hand(values, options);
    if (!place) options.locals = 0;
    guess_locals(options);
    const std::string where = place ? place->where : values.where("nnodes");
    check_processes(where, options.processes, ranks, place ? or_alone : "");
    if (options.several()) check_token(values.given("master") ? values.where("master") : where, options.master, options.token);
  }
  if (options.several()) options.notes = token_notes(values, options.token);
  options.transport = read_transport(values, options.several());
  options.stop_grace = read_stop_grace(values, environment);
  options.preempt_signal = read_preempt_signal(values);
  return options;
}

Rendezvous rendezvous_of(const ProcessOptions& processes) {
  Rendezvous rendezvous;
  rendezvous.process = processes.process;
  rendezvous.processes = processes.processes;
  const MasterAddress& at = processes.join ? *processes.join : processes.master;
  rendezvous.host = at.host;
  rendezvous.port = at.port;
  rendezvous.token = processes.token;
  rendezvous.job = processes.job;
  rendezvous.timeout = processes.timeout;
  return rendezvous;
}

ProcessOptions processes_of(const LaunchOptions& launch) {
  ProcessOptions all;
  all.processes = launch.processes();
  all.process = launch.node_rank * launch.nproc;
  all.locals = launch.nproc;
  return all;
}

LaunchOptions read_launch(const OptionValues& values, const Environment& environment, std::int64_t ranks) {
  LaunchOptions options;
  const auto place = place_of_launcher(values, environment);
  options.nnodes = read_nnodes(values);
  options.node_rank = read_node_rank(values, options.nnodes);
  if (!place && !values.given("nnodes")) refuse_incomplete_place(environment);
  const bool by_node = place && place->launcher == "Slurm" && options.nnodes > 1;  // one launch a node, started by srun
  if (place && !by_node)
    throw Error(
        ErrorKind::input,
        fmt::format("launch: {} has started this process already ({}); use pipetrain train there{}", place->launcher,
                    place->where,
                    environment.contains(launch_variable) ? "" : ", or give --nnodes 1 where this is to be a run of its own"));
  const auto nproc = values.integer("nproc", {1, most_processes / options.nnodes});
  if (!nproc) values.fail("nproc", "is missing; give launch the number of processes of this host");
  options.nproc = static_cast<int>(*nproc);
  check_processes(values.where("nproc"), options.processes(), ranks);
  options.master = read_master(values);
  if (options.nnodes > 1 && !options.master) values.fail("nnodes", "--master HOST:PORT is missing; give every node the same");
  options.token = read_token(values, environment);
  if (options.master) check_token(values.where("master"), *options.master, options.token);
  options.restarts = static_cast<int>(values.integer("restart").value_or(0));
  options.restarted_processes = static_cast<int>(values.integer("restart-processes").value_or(0));
  if (values.given("join")) values.fail("join", "is for one process that joins a run; use pipetrain train, or leave it out");
  if (options.restarts > 0 && !values.given("save"))
    values.fail("restart", "needs --save DIR, for the checkpoints to continue from; give it");
  read_timeout(values);
  read_stop_grace(values, environment);
  read_transport(values, options.processes() > 1);
  return options;
}

}  // namespace pipetrain
