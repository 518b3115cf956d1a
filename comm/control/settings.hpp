// The times and limits of the control plane. Tests use shorter ones.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "comm/control/frame.hpp"
#include "comm/control_plane.hpp"

namespace pipetrain::control {

struct Settings {
  std::chrono::milliseconds heartbeat{100};
  std::chrono::milliseconds silence{2000};         // after which a process is lost
  std::chrono::milliseconds handshake{5000};       // from connecting to being accepted or refused
  std::chrono::milliseconds retry{200};            // between two attempts to reach process 0
  std::chrono::milliseconds farewell{2000};        // for sending what is queued for a process that is left, refused or lost
  std::chrono::milliseconds patience{600000};      // for a process that the others wait for in an exchange; 0: no limit
  std::size_t most_strangers = 64;                 // connections that have not shown the token and sent their greeting
  std::size_t most_queued = std::size_t{1} << 30;  // bytes queued for one process; one with more is lost
  std::size_t most_kept = std::size_t{256} << 20;  // bytes of a channel that wait for a handler; a sender of more is lost
  std::uint16_t version = wire_version;
};

std::unique_ptr<ControlPlane> join_processes(const Rendezvous& rendezvous, const Settings& settings);

}  // namespace pipetrain::control
