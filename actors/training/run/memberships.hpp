// The successive memberships of a run in one process: when processes are lost, those that are left take over their ranks
// and continue from copies of the ranks' states.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "actors/ranks/named_values.hpp"
#include "actors/training/run/gathered_copies.hpp"
#include "actors/training/run/membership.hpp"
#include "actors/training/run/takeover.hpp"
#include "core/error.hpp"

namespace pipetrain {

class RunFailed;

// Thrown by Memberships::renew() where the processes that are left do not all have the present layout: one was lost while the
// run changed its layout. They have gathered, and go on from the newest checkpoint in the layout that they know from
// SuccessivePlanes::layout().
struct LayoutEnded : Error {
  LayoutEnded() : Error(ErrorKind::peer_lost, "a process was lost while the run changed its layout") {}
};

class Memberships {
 public:
  // Makes the first one; a process that joins the run becomes a member first, and continues as the others. The job must outlive
  // this, which replaces its processes. Throws as Trainer does.
  Memberships(TrainJob& job, std::shared_ptr<const StepSamples> training, std::shared_ptr<const StepSamples> evaluation);

  Membership& current() const { return *membership_; }
  // Does the work with the current membership's pipeline; nothing between two memberships. Thread-safe.
  void with_pipeline(const std::function<void(Pipeline&)>& work) const;
  bool leads() const;                     // this process runs the steps
  int number() const { return number_; }  // of the current one, counted from 1; the same in all processes
  // True when the processes that are left may continue after this failure.
  bool may_renew(const RunFailed& failure) const;
  // Ends the current membership and begins one with the processes that are left, more than once where more of them are
  // lost meanwhile. Throws Error where that is not possible, and as the constructor does; only the destructor may then be
  // called. cause: for the takeover.
  const Takeover& renew(const std::string& cause);
  // In process 0 between steps: lets newcomers in that have knocked, and returns how many are ready to join.
  int newcomers();
  // In process 0: the next renewal admits those that are ready.
  void admit();
  // Waits until another process of the current membership is lost, for some seconds at most.
  void wait_until_lost(int process) const;
  // Returns the record of the progress from which the last renewal continues; empty where no step had begun.
  const Bytes& record() const { return record_; }
  // Returns those since the last call.
  const std::vector<Takeover>& takeovers() const { return takeovers_; }
  std::vector<Takeover> take_takeovers() { return std::exchange(takeovers_, {}); }

 private:
  using Clock = std::chrono::steady_clock;
  bool several() const;
  bool has_planes() const;
  NamedValues contents_of_members() const;
  void begin(std::optional<std::int64_t> continued);
  void end();
  void gather();
  void take_plane();
  void join();
  const Takeover& go_on(const std::string& cause, Clock::time_point since, double ended, bool gathered);
  // Agrees with the others of the new membership and begins it.
  void continue_from_copies(Takeover& takeover, Clock::time_point since);
  bool has_lost_more() const;

  TrainJob& job_;
  std::shared_ptr<const StepSamples> training_, evaluation_;
  KeptCopies copies_;
  std::shared_ptr<EngineChannel> channel_;  // null: one process
  mutable std::shared_mutex mutex_;         // held by those who replace the membership, and shared by other threads that use it
  std::unique_ptr<Membership> membership_;
  std::vector<Takeover> takeovers_;
  Bytes record_;
  NamedValues contents_;  // of the job, which newcomers must have; computed once because it takes time
  int number_ = 1;
};

}  // namespace pipetrain
