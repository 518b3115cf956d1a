// A TCP port of the loopback address, kept for a process that is started later.
#pragma once

#include <cstdint>

namespace pipetrain {

// As long as it lives, no other HeldPort of this host gets the port, and a listener that allows addresses to be reused
// (SO_REUSEADDR) can take it, again and again. Not inherited over exec.
class HeldPort {
 public:
  // The wanted port, or any other where that one is in use. Throws Error(unavailable).
  explicit HeldPort(std::uint16_t wanted);
  ~HeldPort();
  HeldPort(const HeldPort&) = delete;
  HeldPort& operator=(const HeldPort&) = delete;

  std::uint16_t port() const noexcept { return port_; }

 private:
  int socket_ = -1;
  std::uint16_t port_ = 0;
};

}  // namespace pipetrain
