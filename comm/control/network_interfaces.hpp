// The addresses at which other hosts may reach this one.
#pragma once

#include <string>
#include <vector>

namespace pipetrain {

struct NetworkInterface {
  std::string name, address;  // "eth0", "10.0.0.5"; one entry for each address
  bool is_loopback = false;
};

// Returns the interfaces that are up, loopback last, without link-local IPv6 addresses. Empty where the system does not
// provide them.
std::vector<NetworkInterface> network_interfaces();

}  // namespace pipetrain
