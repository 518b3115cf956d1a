// The door of a process of an elastic run: processes that want to join the run that has begun come here, and process 0 calls
// them to the next gathering.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/control/call.hpp"
#include "comm/control/reception.hpp"
#include "comm/control/standby_socket.hpp"
#include "comm/control_plane.hpp"

namespace pipetrain::control {

// Every process of an elastic run has one, and only process 0 looks at it. Until then the kernel keeps those that knock
// waiting. Not thread-safe.
class Door final : private AdmissionController, private ConnectionOwner {
 public:
  // Listens at any free port of this numeric address. The rendezvous and the settings must outlive it. Throws
  // Error(unavailable).
  Door(const std::string& address, const Rendezvous& rendezvous, const Settings& settings);
  ~Door();

  std::uint16_t port() const { return port_; }
  // Admits those that have knocked since the last call and have the run's token, program and settings. invitation: what they
  // must know of the run, see RunLayout. Never blocks.
  void look(const Bytes& invitation, const JobContents& contents);
  // Returns the newcomers that have opened their jobs.
  std::vector<ProcessInfo> ready() const;
  // Calls these, one after the other, under the numbers from `first` on. Returns how many were called.
  int call(int first, const Call& call);
  // Ends the connections to all newcomers, which then try again: what they were told of the run is no longer right.
  void send_away();

 private:
  struct Newcomer {
    std::shared_ptr<Connection> connection;
    ProcessInfo info;
    bool ready = false;
  };

  void admit(std::shared_ptr<Connection> connection, Hello hello) override;
  void misfit(std::shared_ptr<Connection> connection, const Refusal& refusal) override;
  void on_frame(Connection& connection, Frame&& frame) override;
  void on_end(Connection& connection, const std::string& why) override;

  const Settings& settings_;
  const std::string token_;
  Hello own_;
  asio::io_context io_;
  std::uint16_t port_ = 0;
  std::vector<Newcomer> newcomers_;
  Bytes invitation_;
  JobContents contents_;
  std::unique_ptr<Reception> reception_;
};

}  // namespace pipetrain::control
