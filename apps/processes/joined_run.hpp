// Connects this process with the others of its run: it meets them before their work, and informs them of signals.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "actors/ranks/named_values.hpp"
#include "actors/ranks/run_processes.hpp"
#include "apps/options/option_layers.hpp"
#include "apps/options/process_options.hpp"
#include "core/mesh.hpp"

namespace pipetrain {

// Returns the processes of a run that --dry-run does not start; nothing for a run of one process.
std::optional<PlannedProcesses> planned_processes(const ProcessOptions& options, DeviceKind devices);

struct JoinRequest {
  MeshShape shape;       // of the run's ranks, which are assigned to the processes in order
  NamedValues settings;  // settings that all processes must share, by their options' names
  std::chrono::milliseconds stall{};
  OptionPlaces places;
  bool continues = false;  // processes that are left continue the run when others are lost
  int spares = 0;          // the last processes, which have no ranks at first
};

// A process has one object at a time. Not thread-safe except for ask_to_stop().
class JoinedRun {
 public:
  // Blocks until all processes of the run have joined. Afterwards a follower's lines on stderr begin with its ranks.
  // Throws Error: see join_processes().
  JoinedRun(const ProcessOptions& options, const JoinRequest& request);
  // Leaves the run. Destroy objects that take part in it, such as a Trainer, first.
  ~JoinedRun();
  JoinedRun(const JoinedRun&) = delete;
  JoinedRun& operator=(const JoinedRun&) = delete;

  // Returns the processes, for a job.
  std::shared_ptr<RunProcesses> processes() const { return processes_; }

  // Does the work in every process, or in process 0 only, and returns once all have done theirs. If an Error is thrown
  // in one, all throw it; in the others it names that process.
  void together(const std::string& what, const std::function<void()>& work);
  void in_first(const std::string& what, const std::function<void()>& work);
  // Returns the text of process 0 in every process.
  std::string from_first(const std::string& what, const std::string& text);
  bool leads() const { return control()->process() == 0; }

  // Returns true if this process knows best which stage waited for which when the run failed: process 0, or a follower
  // that has lost it.
  bool must_report(const Error& failure) const;

  // Returns true if all followers before this one are gone or have left.
  bool is_first_follower() const;

  // Sets the handler of SuccessivePlanes::on_half(); does nothing in a run that ends when it loses a process.
  void on_half(std::function<bool()> handler);

  // Stops all processes because of a signal to this one; process 0 decides.
  void ask_to_stop(int signal) noexcept;

 private:
  std::shared_ptr<ControlPlane> control() const;  // of the present membership; thread-safe
  void receive_signals(ControlPlane& control);
  void on_message(std::span<const std::byte> message);

  std::shared_ptr<RunProcesses> processes_;
};

}  // namespace pipetrain
