#include "comm/ucx/ucx_net_devices.hpp"

#include <algorithm>
#include <set>
#include <system_error>

#include "comm/control/network_interfaces.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    names.insert(entry->path().filename().string());
  return names;
}

}  // namespace

std::string ucx_net_devices(const std::string& address, const fs::path& infiniband) {
  const auto interfaces = network_interfaces();
  const auto own = std::find_if(interfaces.begin(), interfaces.end(), [&](const auto& one) { return one.address == address; });
  if (own == interfaces.end()) return {};
  std::string devices = own->name.substr(0, own->name.find(':'));  // "eth0:1" names a second address of eth0
  if (own->is_loopback) return devices;
  for (const std::string& device : names_in(infiniband))
    for (const std::string& port : names_in(infiniband / device / "ports")) devices += "," + device + ":" + port;
  return devices;
}

}  // namespace pipetrain
