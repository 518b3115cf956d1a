// The control planes of a run's successive memberships: when processes are lost, those that are left gather at one of
// them, are counted anew and go on with a control plane of their own. Latecomers and processes of earlier memberships are
// refused, because each gathering has a number.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/control/settings.hpp"
#include "comm/control/standby_socket.hpp"
#include "comm/control_plane.hpp"

namespace pipetrain::control {

// Call gather() from one thread, which also makes and destroys it; the other methods are thread-safe.
class SuccessivePlanes {
 public:
  // first: joined by all processes of the rendezvous, which make this at the same time. Throws Error: unavailable where
  // this process cannot listen, peer_lost as ControlPlane::exchange().
  SuccessivePlanes(Rendezvous rendezvous, const Settings& settings, std::shared_ptr<ControlPlane> first);

  std::shared_ptr<ControlPlane> current() const;
  int membership() const;  // counted from 1
  // Returns the number that a process of the current plane had in the first one.
  int first_number(int process) const;
  // Called with the current plane, and at once with each that begins, before any message arrives.
  void on_begin(std::function<void(ControlPlane&)> handler);

  // Leaves the current plane and gathers, at the first process of it that is not lost, with the others that are not. The
  // caller must not use the current plane any more, nor anything that does. Blocks for some seconds at most. Throws
  // Error(peer_lost) where too few processes come: half of those of the current plane must, so that a divided network
  // never has two memberships; of two equal halves the one with process 0 goes on.
  void gather();

 private:
  Rendezvous coming(const ControlPlane& current) const;

  const Rendezvous rendezvous_;
  const Settings settings_;
  std::shared_ptr<StandbySocket> standby_;
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
};

}  // namespace pipetrain::control
