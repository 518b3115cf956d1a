// Connects this process with the others of its run: it meets them before their work, and informs them of signals.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/ranks/named_values.hpp"
#include "actors/ranks/run_processes.hpp"
#include "apps/options/option_layers.hpp"
#include "apps/options/process_options.hpp"
#include "apps/processes/departures.hpp"
#include "apps/processes/run_message.hpp"
#include "comm/run_layout.hpp"
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

// True in a run that goes on when processes are lost, and has lost another one than this; waits until that is known.
bool has_lost_others(const RunProcesses& processes);

// A layout that one thread announces to another.
class AnnouncedLayout {
 public:
  RunLayout get() const {
    const std::lock_guard lock(mutex_);
    return layout_;
  }
  void set(const RunLayout& layout) {
    const std::lock_guard lock(mutex_);
    layout_ = layout;
  }

 private:
  mutable std::mutex mutex_;
  RunLayout layout_;
};

// A process has one object at a time. Not thread-safe except for ask_to_stop(), ask_to_leave() and departures().
class JoinedRun {
 public:
  // Blocks until all processes of the run have joined, or, in a process that joins a run which has begun, until that has
  // answered; it then has no place before its Trainer is made. Afterwards a follower's lines on stderr begin with its ranks.
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
  bool leads() const { return !processes_->joins && control()->process() == 0; }

  // Returns true if this process knows best which stage waited for which when the run failed: process 0, or a follower
  // that has lost it.
  bool must_report(const Error& failure) const;

  // Returns true if all followers before this one are gone or have left.
  bool is_first_follower() const;

  // Sets the handler of SuccessivePlanes::on_half(); does nothing in a run that ends when it loses a process.
  void on_half(std::function<bool()> handler);

  // Stops all processes because of a signal to this one; process 0 decides.
  void ask_to_stop(int signal) noexcept;

  // --- leaving an elastic run on purpose; processes are named by their present numbers ---
  // Asks process 0, also one that leads the run later, to take this process's ranks over.
  void ask_to_leave();
  // In process 0: returns the processes that have asked and are still there, in order.
  std::vector<int> leavers() const;
  // In process 0: makes another process leave as if it had asked.
  void dismiss(int process) { departures_.asked(first_number(process)); }
  // In process 0: announces to all that this process leaves, before its states are copied.
  void announce_leave(int process);
  // In process 0: lets another process end, because its states are safe.
  void let_leave(int process);
  Departures& departures() { return departures_; }

  // --- changing the layout ---
  RunPlace place() const { return {control()->process(), control()->processes()}; }
  // In process 0, before it ends the run in its present layout: announces to all that it goes on in another one.
  void announce_relayout(const std::string& text);
  // Returns the layout that was announced last.
  RunLayout layout() const;
  // Every process calls it once its Trainer is gone: deals the ranks of the new layout to the processes; the last ones are
  // spare. Returns when all have called it.
  void deal_anew(int ranks, int spares);
  // After gather().
  void deal(int ranks, int spares);
  // Gathers with the processes that are left, outside of a Trainer.
  void gather();

  // --- processes that join the run ---
  bool joins() const { return processes_->joins; }
  // In process 0: where they may join; empty in a run that goes on with the processes that it has.
  std::string door() const;

 private:
  std::shared_ptr<ControlPlane> control() const;  // of the present membership; thread-safe
  void begin_membership(ControlPlane& control);
  void receive_messages(ControlPlane& control);
  void set_layout(const RunLayout& layout);
  void on_message(int from, std::span<const std::byte> bytes);
  int first_number(int process) const;
  void join_begun(const Rendezvous& rendezvous, const JoinRequest& request);

  std::shared_ptr<RunProcesses> processes_;
  Departures departures_;
  AnnouncedLayout layout_;  // of a run that ends when it loses a process
};

}  // namespace pipetrain
