// Accepts connections for process 0, and passes on those that have shown the token and sent their greeting.
#pragma once

#include <functional>
#include <list>
#include <memory>

#include "comm/control/connection.hpp"
#include "comm/control/handshake.hpp"

namespace pipetrain::control {

// Decides whether a process that showed the token joins the run.
class AdmissionController {
 public:
  // Takes over the connection, with which the reception is done, and admits or refuses the process.
  virtual void admit(std::shared_ptr<Connection> connection, Hello hello) = 0;
  // Takes over a connection whose process has the run's token but speaks another version.
  virtual void misfit(std::shared_ptr<Connection> connection, const Refusal& refusal) = 0;

 protected:
  ~AdmissionController() = default;
};

// Used on the I/O thread only.
class Reception final : public ConnectionOwner {
 public:
  // The token, the settings and the controller must outlive it.
  Reception(tcp::acceptor acceptor, const std::string& token, const Settings& settings, AdmissionController& admission);

  void start() { accept(); }
  // Ends connections whose handshake takes longer than Settings::handshake.
  void tick(Clock::time_point now);
  // Stops accepting connections.
  void close();

  void on_frame(Connection& connection, Frame&& frame) override;
  void on_end(Connection& connection, const std::string& why) override;

 private:
  struct Stranger {
    std::shared_ptr<Connection> connection;
    Clock::time_point since;
    bool token_shown = false;
  };

  void accept();
  void accepted(const error_code& error, tcp::socket socket);
  void check_token(Stranger& stranger, const Frame& frame);

  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  const std::string& token_;
  const Settings& settings_;
  AdmissionController& admission_;
  std::list<Stranger> strangers_;  // oldest first
};

// Sends the reason and ends the connection once that has arrived; then calls `done`.
void refuse(
    Connection& connection, const Refusal& refusal, std::function<void()> done = [] {});

}  // namespace pipetrain::control
