#include "comm/control/handshake.hpp"

#include <unistd.h>

#include <array>
#include <fstream>
#include <utility>

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

// The kind of a refusal on the wire. All versions of the protocol share the values of peer_lost and input.
enum class RefusalKind : std::uint8_t { peer_lost, input, unavailable };

std::string memory_scope() { return kernel_name() + name_space("ipc"); }

// Process numbers (pid) and the monotonic clock (time) belong to namespaces, too.
std::string machine_name() { return memory_scope() + name_space("net") + name_space("pid") + name_space("time"); }

void write_process(WireWriter& writer, const ProcessInfo& info) {
  writer.number(static_cast<std::int32_t>(info.process));
  writer.text(info.host);
  writer.text(info.machine);
  writer.text(info.memory_scope);
  writer.number(info.pid);
  writer.text(info.label);
  writer.text(info.address);
  writer.number(static_cast<std::int64_t>(info.clock_offset.count()));
}

ProcessInfo read_process(WireReader& reader) {
  ProcessInfo info;
  info.process = reader.number<std::int32_t>();
  info.host = reader.text();
  info.machine = reader.text();
  info.memory_scope = reader.text();
  info.pid = reader.number<std::int64_t>();
  info.label = reader.text();
  info.address = reader.text();
  info.clock_offset = std::chrono::nanoseconds(reader.number<std::int64_t>());
  return info;
}

}  // namespace

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

Bytes to_bytes(const Hello& hello) {
  WireWriter writer;
  write_process(writer, hello.info);
  writer.number(static_cast<std::int32_t>(hello.processes));
  writer.text(hello.program);
  writer.text(hello.job);
  writer.list(hello.settings, [&](const auto& setting) {
    writer.text(setting.first);
    writer.text(setting.second);
  });
  return std::move(writer).data();
}

Hello read_hello(std::span<const std::byte> payload) {
  WireReader reader(payload);
  Hello hello;
  hello.info = read_process(reader);
  hello.processes = reader.number<std::int32_t>();
  hello.program = reader.text();
  hello.job = reader.text();
  hello.settings.resize(reader.count(2 * sizeof(std::uint32_t)));
  for (auto& [name, value] : hello.settings) {
    name = reader.text();
    value = reader.text();
  }
  reader.end();
  return hello;
}

Error to_error(const Refusal& refusal) {
  if (refusal.setting.name.empty()) return Error(refusal.kind, refusal.why);
  return Error(refusal.kind, refusal.setting, refusal.why);
}

Bytes to_bytes(const Refusal& refusal) {
  WireWriter writer;
  const auto kind = refusal.kind == ErrorKind::input         ? RefusalKind::input
                    : refusal.kind == ErrorKind::unavailable ? RefusalKind::unavailable
                                                             : RefusalKind::peer_lost;
  writer.number(kind);
  writer.text(refusal.setting.name);
  writer.text(refusal.setting.value);
  writer.text(refusal.why);
  return std::move(writer).data();
}

Refusal read_refusal(std::span<const std::byte> payload) {
  WireReader reader(payload);
  Refusal refusal;
  const auto kind = reader.choice(RefusalKind::unavailable);
  refusal.kind = kind == RefusalKind::input         ? ErrorKind::input
                 : kind == RefusalKind::unavailable ? ErrorKind::unavailable
                                                    : ErrorKind::peer_lost;
  refusal.setting.name = reader.text();
  refusal.setting.value = reader.text();
  refusal.why = reader.text();
  reader.end();
  return refusal;
}

Bytes to_bytes(const std::vector<ProcessInfo>& all) {
  WireWriter writer;
  writer.list(all, [&](const ProcessInfo& info) { write_process(writer, info); });
  return std::move(writer).data();
}

std::vector<ProcessInfo> read_processes(std::span<const std::byte> payload) {
  WireReader reader(payload);
  std::vector<ProcessInfo> all(reader.count(32));
  for (ProcessInfo& info : all) info = read_process(reader);
  reader.end();
  return all;
}

Bytes to_bytes(const Loss& loss) {
  WireWriter writer;
  writer.number(static_cast<std::int32_t>(loss.process));
  writer.text(loss.why);
  return std::move(writer).data();
}

Loss read_loss(std::span<const std::byte> payload) {
  WireReader reader(payload);
  Loss loss;
  loss.process = reader.number<std::int32_t>();
  loss.why = reader.text();
  reader.end();
  return loss;
}

}  // namespace pipetrain::control
