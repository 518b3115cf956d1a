// A TCP port of the loopback address that is kept for a process that is started later.
#pragma once

#include <cstdint>

namespace pipetrain {

// While it lives, no other HeldPort of this host gets the port, and a listener that allows address reuse (SO_REUSEADDR)
// can bind it repeatedly. Not inherited over exec.
class HeldPort {
 public:
  // Takes the wanted port, or any other where that one is in use. Throws Error(unavailable).
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
