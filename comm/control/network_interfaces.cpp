#include "comm/control/network_interfaces.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <array>
#include <memory>

namespace pipetrain {

namespace {

// Returns an empty string for addresses that are not of the internet or only of this link.
std::string interface_address(const sockaddr* address) {
  if (!address) return "";
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address->sa_family == AF_INET)
    return ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text.data(), text.size());
  if (address->sa_family != AF_INET6) return "";
  const in6_addr& in6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  return IN6_IS_ADDR_LINKLOCAL(&in6) ? "" : ::inet_ntop(AF_INET6, &in6, text.data(), text.size());
}

}  // namespace

std::vector<NetworkInterface> network_interfaces() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, ::freeifaddrs);
  std::vector<NetworkInterface> others, loopback;
  for (const ifaddrs* entry = first; entry; entry = entry->ifa_next) {
    const std::string address = interface_address(entry->ifa_addr);
    if (address.empty() || (entry->ifa_flags & IFF_UP) == 0) continue;
    const bool is_loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    (is_loopback ? loopback : others).push_back({entry->ifa_name, address, is_loopback});
  }
  others.insert(others.end(), loopback.begin(), loopback.end());
  return others;
}

}  // namespace pipetrain
