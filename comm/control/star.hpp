// The two ends of the star that the processes of a run form: process 0 (Coordinator) is connected to all others (Member), and
// passes on what these send each other. Everything on the I/O thread.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "comm/control/asio.hpp"
#include "comm/control/frame.hpp"
#include "comm/control_plane.hpp"

namespace pipetrain::control {

// Whom an end tells its news.
class StarEvents {
 public:
  // One of these first, once: the run begins, or it does not.
  virtual void joined(std::vector<ProcessInfo> all) = 0;
  virtual void failed(std::exception_ptr why) = 0;
  // A message or a part of an exchange.
  virtual void received(Frame&& frame) = 0;
  // More than once for one process perhaps.
  virtual void lost(int process, const std::string& why) = 0;
  virtual void left(int process) = 0;

 protected:
  ~StarEvents() = default;
};

class StarEnd {
 public:
  virtual ~StarEnd() = default;
  // Begins the rendezvous.
  virtual void start() = 0;
  // Called every Settings::heartbeat.
  virtual void tick(Clock::time_point now) = 0;
  // To the process that the frame names, not this one; a part of an exchange to all others. Dropped where nobody is.
  virtual void send(Frame frame) = 0;
  // What this process sent cannot be used: it counts as lost.
  virtual void give_up(int process, const std::string& why) = 0;
  // Says so to the others and ends the connections; then `done`.
  virtual void leave(std::function<void()> done) = 0;
};

}  // namespace pipetrain::control
