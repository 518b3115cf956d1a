// The control planes of a run's successive memberships: when processes are lost, those that are left gather at one of
// them, are counted anew and go on with a control plane of their own.
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
#include "comm/process_handles.hpp"

namespace pipetrain::control {

// Call gather() from one thread, which also makes and destroys it; the other methods are thread-safe.
class SuccessivePlanes {
 public:
  // first: joined by all processes of the rendezvous, which make this at the same time. Throws Error: unavailable where
  // this process cannot listen, peer_lost as ControlPlane::exchange().
  SuccessivePlanes(Rendezvous rendezvous, const Settings& settings, std::shared_ptr<ControlPlane> first);

  std::shared_ptr<ControlPlane> current() const;
  int membership() const;  // counted from 1; the same in all processes of a plane
  // Returns the number that a process of the current plane had in the first one.
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

 private:
  std::vector<int> left_of(const ControlPlane& plane) const;
  std::vector<int> lost_of(const ControlPlane& plane) const;
  Rendezvous coming(const ControlPlane& before, int leader) const;
  std::shared_ptr<ControlPlane> join_others(const ControlPlane& before) const;
  struct Counted {
    std::vector<int> first_numbers;  // by process of the new plane
    int membership = 0;
  };
  std::optional<Counted> count_anew(ControlPlane& plane) const;
  int own_number() const { return rendezvous_.process; }

  const Rendezvous rendezvous_;
  const Settings settings_;
  std::shared_ptr<StandbySocket> standby_;
  std::shared_ptr<ProcessHandles> handles_;  // by first number
  struct Address {
    std::string host;
    std::uint16_t port = 0;
  };
  std::vector<Address> addresses_;  // by first number
  mutable std::mutex mutex_;
  std::shared_ptr<ControlPlane> current_;
  std::vector<int> first_numbers_;  // by process of the current plane
  int membership_ = 1;
  std::function<void(ControlPlane&)> on_begin_;
  std::function<bool()> on_half_;
};

}  // namespace pipetrain::control
