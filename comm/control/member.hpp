// The end of the star of every process but 0.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "comm/control/connection.hpp"
#include "comm/control/handshake.hpp"
#include "comm/control/silence_watch.hpp"
#include "comm/control/star.hpp"

namespace pipetrain::control {

class Member final : public StarEnd, private ConnectionOwner {
 public:
  // The references must outlive it.
  Member(asio::io_context& io, const Rendezvous& rendezvous, const Settings& settings, StarEvents& events);

  void start() override;
  void tick(Clock::time_point now) override;
  void send(Frame frame) override;
  void give_up(int process, const std::string& why) override;
  void leave(std::function<void()> done) override;

 private:
  enum class Phase {
    pausing,     // until the next attempt
    connecting,  // also while it resolves the host's name
    greeting,    // has sent its greeting
    waiting,     // was accepted; process 0 decides whether and when the run begins
    running,
    over,
  };

  void connect();
  void resolved(const error_code& error, const tcp::resolver::results_type& found);
  void connected(const error_code& error);
  void retry(const std::string& problem);
  void tick_before_greeting_is_answered(Clock::time_point now);
  void fail(const Error& error);

  void on_frame(Connection& connection, Frame&& frame) override;
  void on_end(Connection& connection, const std::string& why) override;
  void frame_in_greeting(Connection& connection, const Frame& frame);
  void frame_in_waiting(Connection& connection, const Frame& frame);
  void frame_in_run(Connection& connection, Frame&& frame);
  void first_lost(const std::string& why);

  const Rendezvous& rendezvous_;
  const Settings& settings_;
  StarEvents& events_;
  tcp::resolver resolver_;
  tcp::socket socket_;  // of the attempt to connect
  SilenceWatch watch_;
  std::shared_ptr<Connection> connection_;
  Phase phase_ = Phase::pausing;
  std::uint64_t attempt_ = 0;          // distinguishes answers to earlier attempts from those to the present one
  Clock::time_point deadline_, next_;  // next_: when the attempt or the pause ends
  std::string problem_ = "no answer yet";
};

}  // namespace pipetrain::control
