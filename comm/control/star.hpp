// The two ends of the star that the processes of a run form: process 0 (Coordinator) is connected to all others
// (Member), and forwards messages between them. Everything runs on the I/O thread.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "comm/control/asio.hpp"
#include "comm/control/frame.hpp"
#include "comm/control_plane.hpp"

namespace pipetrain::control {

// Receives the events of an end.
class StarEvents {
 public:
  // Exactly one of these two comes first: the run begins, or it does not.
  // own: the number of this process in the run that begins.
  virtual void joined(std::vector<ProcessInfo> all, int own) = 0;
  virtual void failed(std::exception_ptr why) = 0;
  // A message or a part of an exchange.
  virtual void received(Frame&& frame) = 0;
  // May be called more than once for one process.
  virtual void lost(int process, const std::string& why) = 0;
  virtual void left(int process) = 0;
  // The others count this process as lost.
  virtual void left_out() = 0;

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
  // Sends a frame to the other process that it names; a part of an exchange to all others. Dropped where that process is gone.
  virtual void send(Frame frame) = 0;
  // The data of this process is invalid: it counts as lost.
  virtual void give_up(int process, const std::string& why) = 0;
  // Tells the others and ends the connections; then calls `done`.
  virtual void leave(std::function<void()> done) = 0;
};

}  // namespace pipetrain::control
