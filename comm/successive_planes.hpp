// The control planes of a run's successive memberships: when processes are lost or join, the members gather at one of them,
// are counted anew and go on with a control plane of their own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "comm/control/settings.hpp"
#include "comm/control/standby_socket.hpp"
#include "comm/control_plane.hpp"
#include "comm/joining/call.hpp"
#include "comm/membership_roll.hpp"
#include "comm/process_handles.hpp"
#include "comm/run_layout.hpp"
#include "core/error.hpp"

namespace pipetrain::control {

class Door;
class Newcomer;

// Call gather(), join() and the methods for newcomers from one thread, which also makes and destroys it; the other methods are
// thread-safe. Processes have numbers that stay: at first those of the first plane, and a newcomer has the next one.
class SuccessivePlanes {
 public:
  // first: joined by all processes of the rendezvous, which make this at the same time. Throws Error: unavailable where
  // this process cannot listen, peer_lost as ControlPlane::exchange().
  SuccessivePlanes(Rendezvous rendezvous, const Settings& settings, std::shared_ptr<ControlPlane> first);
  // For a process that joins a run which has begun. The rendezvous has the address of its door. Throws as Newcomer.
  SuccessivePlanes(Rendezvous rendezvous, const Settings& settings);
  ~SuccessivePlanes();
  SuccessivePlanes(const SuccessivePlanes&) = delete;
  SuccessivePlanes& operator=(const SuccessivePlanes&) = delete;

  // Null in a newcomer before join().
  std::shared_ptr<ControlPlane> current() const;
  int membership() const;  // counted from 1; the same in all processes of a plane
  // Returns the number of a process of the current plane.
  int first_number(int process) const;
  // Called with the current plane, and at once with each that begins, before any message arrives.
  void on_begin(std::function<void(ControlPlane&)> handler);
  // Called on a control plane's thread, in a process that gathers the others, where half of them are left, without process 0,
  // and the others may be alive: returns true where the run belongs to this half. The handler may block for a short time.
  // Without one the half ends.
  void on_half(std::function<bool()> handler);

  // Leaves the current plane and gathers with its other processes, at the first of them that is not lost; at the next where
  // that one is lost too. The caller must not use the current plane any more, nor anything that does. Blocks for some seconds
  // at most. Throws Error(peer_lost) where the others count this process as lost, or too few of them come: see may_begin().
  void gather();

  // --- the layout of the run, which a gathering brings to all members ---
  RunLayout layout() const;
  // Sets what this process knows, if it is newer.
  void set_layout(const RunLayout& layout);
  // This process has built the layout, or has given it up.
  void set_runs(bool runs);
  // True where every process had built the newest layout when the current plane began.
  bool all_run() const;

  // --- processes that join ---
  // In a newcomer: says that its job is open, waits until process 0 calls it, and gathers with the members. contents: values
  // that must be those of process 0. Throws as Newcomer and gather().
  void join(const JobContents& contents);
  // In process 0: lets newcomers in that have knocked. Returns those that are ready to join. Never blocks.
  std::vector<ProcessInfo> newcomers(const JobContents& contents);
  // In process 0: the next gather() calls those that are ready.
  void admit() { admits_ = true; }
  // Returns the door's address of process 0 of the current plane, as "host:port".
  std::string door() const;
  // Returns how many processes joined when the current plane began.
  int joined() const;

 private:
  struct Address {
    int number = 0;
    std::string host;
    std::uint16_t port = 0, door = 0;
  };
  std::vector<int> numbers() const;
  const Address& address_of(int number) const;
  Rendezvous coming(const ControlPlane& before, int leader);
  std::shared_ptr<ControlPlane> join_others(const ControlPlane& before);
  std::optional<Error> begin(std::shared_ptr<ControlPlane> plane);
  RollEntry own_entry() const;

  Rendezvous rendezvous_;  // its process is this one's number
  const Settings settings_;
  std::unique_ptr<Newcomer> newcomer_;  // before join()
  std::shared_ptr<StandbySocket> standby_;
  std::unique_ptr<Door> door_;
  std::shared_ptr<ProcessHandles> handles_;
  bool admits_ = false;
  mutable std::mutex mutex_;
  std::shared_ptr<ControlPlane> current_;
  std::vector<Address> members_;  // by process of the current plane
  int membership_ = 0, next_number_ = 0, joined_ = 0;
  RunLayout layout_;
  bool runs_ = false, all_run_ = false;
  std::function<void(ControlPlane&)> on_begin_;
  std::function<bool()> on_half_;
};

}  // namespace pipetrain::control
