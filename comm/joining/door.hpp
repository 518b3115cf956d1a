// The door of a process of an elastic run: processes that want to join the run that has begun come here, and process 0 calls
// them to the next gathering.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/control/settings.hpp"
#include "comm/control_plane.hpp"
#include "comm/joining/call.hpp"

namespace pipetrain::control {

// Every process of an elastic run has one, and only process 0 looks at it. Until then the kernel keeps those that knock
// waiting. Not thread-safe.
class Door {
 public:
  // Listens at any free port of this numeric address. The settings must outlive it. Throws Error(unavailable).
  Door(const std::string& address, const Rendezvous& rendezvous, const Settings& settings);
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  std::uint16_t port() const;
  // Admits those that have knocked since the last call and have the run's token, program and settings. invitation: the bytes
  // of the RunLayout that newcomers are told. contents: those that their jobs must have. Never blocks.
  void look(const Bytes& invitation, const JobContents& contents);
  // Returns the newcomers that have opened their jobs.
  std::vector<ProcessInfo> ready() const;
  // Calls these, one after the other, under the numbers from `first` on. Returns how many were called.
  int call(int first, const Call& call);

 private:
  class Hall;
  std::unique_ptr<Hall> hall_;
};

}  // namespace pipetrain::control
