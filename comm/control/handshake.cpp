#include "comm/control/handshake.hpp"

#include <unistd.h>

#include <array>
#include <fstream>

#include "core/error.hpp"

namespace pipetrain::control {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// Changes with every start of the kernel, and is the same in all its containers.
std::string kernel_name() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return id.empty() ? host_name() : id;
}

// Returns " net:[4026531840]" for "net": the namespace of this process; empty where the system does not provide it.
std::string name_space(const std::string& kind) {
  std::array<char, 64> name{};
  const ::ssize_t size = ::readlink(("/proc/self/ns/" + kind).c_str(), name.data(), name.size());
  return size <= 0 ? "" : " " + std::string(name.data(), static_cast<std::size_t>(size));
}

std::string memory_scope() { return kernel_name() + name_space("ipc"); }

}  // namespace

// Process numbers (pid) and the monotonic clock (time) belong to namespaces, too.
std::string machine_name() { return memory_scope() + name_space("net") + name_space("pid") + name_space("time"); }

Hello hello_of(const Rendezvous& rendezvous) {
  Hello hello;
  hello.info.process = rendezvous.process;
  hello.info.host = host_name();
  hello.info.machine = machine_name();
  hello.info.memory_scope = memory_scope();
  hello.info.pid = ::getpid();
  hello.info.label = rendezvous.label;
  hello.processes = rendezvous.processes;
  hello.program = PIPETRAIN_VERSION;
  hello.job = rendezvous.job;
  hello.settings = rendezvous.settings;
  return hello;
}

Error to_error(const Refusal& refusal) {
  if (refusal.setting.name.empty()) return Error(refusal.kind, refusal.why);
  return Error(refusal.kind, refusal.setting, refusal.why);
}

}  // namespace pipetrain::control
