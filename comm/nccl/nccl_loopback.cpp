#include "comm/nccl/nccl_loopback.hpp"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string>

#include "comm/control/network_interfaces.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

constexpr const char* interface_variable = "NCCL_SOCKET_IFNAME";

std::mutex loopback_mutex;
int loopback_holders = 0;
bool was_kept_to_loopback = false;

// Returns the interface's name where all processes of the run are on loopback, else empty.
std::string loopback_of_run(const ControlPlane& control) {
  const auto interfaces = network_interfaces();
  const auto loopback = std::find_if(interfaces.begin(), interfaces.end(), [](const auto& one) { return one.is_loopback; });
  if (loopback == interfaces.end()) return "";
  for (int process = 0; process < control.processes(); ++process)
    if (control.info(process).address != loopback->address) return "";
  return loopback->name;
}

}  // namespace

NcclLoopback::NcclLoopback(const ControlPlane& control) {
  const std::string name = loopback_of_run(control);
  const std::lock_guard lock(loopback_mutex);
  if (name.empty() && was_kept_to_loopback)
    throw Error(
        ErrorKind::unavailable, Setting{"transport", "nccl"},
        "NCCL listens on loopback alone in this process, since an earlier run here was on one host; begin this run in a "
        "new process");
  if (name.empty() || (loopback_holders == 0 && std::getenv(interface_variable) != nullptr)) return;
  if (loopback_holders++ == 0) ::setenv(interface_variable, name.c_str(), 1);
  holds_ = was_kept_to_loopback = true;
}

NcclLoopback::~NcclLoopback() {
  const std::lock_guard lock(loopback_mutex);
  if (holds_ && --loopback_holders == 0) ::unsetenv(interface_variable);
}

}  // namespace pipetrain
