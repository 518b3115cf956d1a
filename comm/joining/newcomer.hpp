// A process that joins an elastic run which has begun: it knocks at the door of process 0, opens its job, and waits until it
// is called to a gathering.
#pragma once

#include <string>

#include "comm/control/frame.hpp"
#include "comm/control_plane.hpp"
#include "comm/joining/call.hpp"

namespace pipetrain::control {

// Not thread-safe.
class Newcomer {
 public:
  // Knocks at the rendezvous's host and port, and waits for the invitation, for the rendezvous's timeout at most. Throws Error:
  // input where the run refuses this process; peer_lost where nobody listens there or answers.
  explicit Newcomer(const Rendezvous& rendezvous);
  ~Newcomer();
  Newcomer(const Newcomer&) = delete;
  Newcomer& operator=(const Newcomer&) = delete;

  const Bytes& invitation() const { return invitation_; }
  // Tells process 0 that this process's job is open, and waits until it is called, for the rendezvous's timeout at most. Throws
  // as the constructor.
  Call wait_for_call(const JobContents& contents);

 private:
  void connect();
  void send(const Frame& frame) const;
  Frame receive(FrameKind wanted);
  [[noreturn]] void fail(const std::string& why) const;

  const Rendezvous rendezvous_;
  int socket_ = -1;
  FrameReader reader_{most_hello_bytes};
  Bytes invitation_;
};

}  // namespace pipetrain::control
