// This process among those of a run: it meets the others before their work, and tells them of signals.
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

// Those of a run that --dry-run does not start; nothing for a run of one.
std::optional<PlannedProcesses> planned_processes(const ProcessOptions& options, DeviceKind devices);

struct JoinRequest {
  MeshShape shape;       // of the run's ranks, which are dealt to the processes in order
  NamedValues settings;  // that all processes must share, by their options' names
  std::chrono::milliseconds stall{};
  OptionPlaces places;
};

// One at a time in a process. Not thread-safe but for ask_to_stop().
class JoinedRun {
 public:
  // Blocks until all processes of the run have joined. From then on a follower's lines on stderr begin with its ranks. Throws
  // Error: see join_processes().
  JoinedRun(const ProcessOptions& options, const JoinRequest& request);
  // Leaves the run: after what takes part in it, such as a Trainer.
  ~JoinedRun();
  JoinedRun(const JoinedRun&) = delete;
  JoinedRun& operator=(const JoinedRun&) = delete;

  // For a job.
  std::shared_ptr<RunProcesses> processes() const { return processes_; }

  // Does the work in every process, or in process 0 only, and returns when all have done theirs. Where it throws an Error, all
  // throw that: the others' names the process.
  void together(const std::string& what, const std::function<void()>& work);
  void in_first(const std::string& what, const std::function<void()>& work);
  // What process 0 gives, in every process.
  std::string from_first(const std::string& what, const std::string& text);
  bool leads() const { return control().process() == 0; }

  // Whether this process knows best who waited for whom when the run failed: process 0, or a follower that has lost it.
  bool is_to_tell(const Error& failure) const;

  // Whether all followers before this one are gone or have left.
  bool is_first_follower() const;

  // A signal that came to one process stops all of them, as process 0 decides.
  void ask_to_stop(int signal) noexcept;

 private:
  ControlPlane& control() const { return *processes_->control; }
  void on_message(std::span<const std::byte> message);

  std::shared_ptr<RunProcesses> processes_;
};

}  // namespace pipetrain
