// A socket that listens from the beginning of a process's run, so that the others can gather at this process once process 0
// is gone, or at process 0 once another one is. Until this process accepts connections the kernel keeps them waiting.
#pragma once

#include <cstdint>
#include <string>

namespace pipetrain {

class StandbySocket {
 public:
  // Listens at any free port of this numeric address. Throws Error(unavailable).
  explicit StandbySocket(const std::string& address);
  ~StandbySocket();
  StandbySocket(const StandbySocket&) = delete;
  StandbySocket& operator=(const StandbySocket&) = delete;

  const std::string& address() const noexcept { return address_; }
  std::uint16_t port() const noexcept { return port_; }
  bool is_v6() const noexcept { return v6_; }
  // Returns another descriptor of the same socket, which the caller owns. Throws Error(unavailable).
  int duplicate() const;

 private:
  std::string address_;
  bool v6_;
  int socket_ = -1;
  std::uint16_t port_ = 0;
};

}  // namespace pipetrain
