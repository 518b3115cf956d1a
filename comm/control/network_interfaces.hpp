// The addresses by which other hosts may reach this one.
#pragma once

#include <string>
#include <vector>

namespace pipetrain {

struct NetworkInterface {
  std::string name, address;  // "eth0", "10.0.0.5"; one entry for each address
  bool is_loopback = false;
};

// Those that are up, loopback last. Link-local IPv6 addresses are left out. Empty where the system does not tell.
std::vector<NetworkInterface> network_interfaces();

}  // namespace pipetrain
