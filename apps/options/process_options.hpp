// The processes of a run and the place of this one among them, from options and from the environment of a launcher.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "apps/options/option_values.hpp"
#include "comm/control/launch_environment.hpp"
#include "comm/control_plane.hpp"
#include "comm/transport.hpp"

namespace pipetrain {

inline constexpr std::int64_t most_processes = 4096;  // of a run

// The address at which process 0 listens.
struct MasterAddress {
  std::string host = "127.0.0.1";
  std::uint16_t port = 29500;
};
// Parses "HOST:PORT", "HOST" or "[::1]:PORT". Returns no value for any other text.
std::optional<MasterAddress> parse_master(const std::string& text);
// Returns true if no other host can reach the address: localhost, 127.x.y.z, ::1.
bool is_loopback(const std::string& host);

struct ProcessOptions {
  int process = 0, processes = 1;
  int local = 0, locals = 1;  // of those of this run on this host
  MasterAddress master;
  std::optional<MasterAddress> join;  // of a run that has begun, which this process joins
  std::string token;                  // may be empty on loopback
  bool token_from_file = false;       // and so one that the user knows
  std::string job;                    // of the launcher, see launch_job()
  std::chrono::seconds timeout{300};
  std::optional<TransportKind> transport;          // not given: the first that can carry the run
  int attempt = 0;                                 // how often pipetrain launch has started the run again
  std::optional<std::chrono::seconds> stop_grace;  // between a launcher's SIGTERM and its SIGKILL; not given: not known
  int preempt_signal = 0;                          // the notice that this process's machine will be taken
  std::vector<std::string> notes;                  // lines for stderr, see TrainOptions::notes

  bool several() const { return processes > 1 || join; }
  bool leads() const { return process == 0 && !join; }  // draws the progress and writes the files
};

// The place of a process in a run whose processes have changed since they were started.
struct RunPlace {
  int process = 0, processes = 1;
};

// Reads the options of a process of a run that has this many ranks. Throws Error(input).
ProcessOptions read_processes(const OptionValues& values, const std::map<std::string, std::string>& environment,
                              std::int64_t ranks);

// Returns where the process meets the others. The caller adds its own facts and the settings that all must share.
Rendezvous rendezvous_of(const ProcessOptions& processes);

// The settings of pipetrain launch on this host.
struct LaunchOptions {
  int nproc = 1, nnodes = 1, node_rank = 0;
  std::optional<MasterAddress> master;  // not given: on this host, with a free port
  std::string token;                    // empty: of nobody's choosing
  int restarts = 0;
  int restarted_processes = 0;  // at most

  int processes() const { return nproc * nnodes; }
};
// Returns the options of the launcher itself, as if it were the first of the processes that it starts.
ProcessOptions processes_of(const LaunchOptions& launch);
// Throws Error(input).
LaunchOptions read_launch(const OptionValues& values, const std::map<std::string, std::string>& environment,
                          std::int64_t ranks);

}  // namespace pipetrain
