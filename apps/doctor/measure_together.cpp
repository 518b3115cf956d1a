#include "apps/doctor/measure_together.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "comm/control_plane.hpp"
#include "comm/measure_links.hpp"
#include "comm/transport.hpp"
#include "comm/transport_memory.hpp"
#include "core/mesh.hpp"
#include "core/wire.hpp"

namespace pipetrain {
namespace {

Rendezvous rendezvous_of(const ProcessOptions& processes, const CpuCount& cpu) {
  Rendezvous rendezvous;
  rendezvous.process = processes.process;
  rendezvous.processes = processes.processes;
  rendezvous.host = processes.master.host;
  rendezvous.port = processes.master.port;
  rendezvous.token = processes.token;
  rendezvous.timeout = processes.timeout;
  rendezvous.label = "doctor";
  rendezvous.settings = {{"threads", std::to_string(cpu.threads)}};
  return rendezvous;
}

// The host of each process, numbered in order of their first processes.
std::vector<int> hosts_of(const ControlPlane& control) {
  std::map<std::string, int> numbers;
  std::vector<int> hosts;
  for (int process = 0; process < control.processes(); ++process) {
    const ProcessInfo& info = control.info(process);
    const std::string& name = info.machine.empty() ? info.host : info.machine;
    hosts.push_back(numbers.emplace(name, static_cast<int>(numbers.size())).first->second);
  }
  return hosts;
}

Bytes to_bytes(const MeasuredDevices& devices) {
  WireWriter to;
  to.number(static_cast<std::int32_t>(devices.count));
  for (const double number : {devices.memory_bytes, devices.fp32_flops, devices.memory_rate, devices.block_overhead})
    to.number(number);
  to.flag(devices.link_rate.has_value());
  to.number(devices.link_rate.value_or(0));
  to.number(devices.latency.value_or(0));
  return std::move(to).data();
}

MeasuredDevices devices_of(const Bytes& bytes, const CpuCount& cpu) {
  WireReader from(bytes);
  MeasuredDevices devices;
  devices.threads = cpu.threads;
  devices.count = from.number<std::int32_t>();
  for (double* number : {&devices.memory_bytes, &devices.fp32_flops, &devices.memory_rate, &devices.block_overhead})
    *number = from.number<double>();
  const bool linked = from.flag();
  const auto rate = from.number<double>(), latency = from.number<double>();
  if (linked) devices.link_rate = rate, devices.latency = latency;
  from.end();
  return devices;
}

// What all sustain.
MeasuredDevices slower(const MeasuredDevices& one, const MeasuredDevices& other) {
  MeasuredDevices both = one;
  both.count = std::min(one.count, other.count);
  both.memory_bytes = std::min(one.memory_bytes, other.memory_bytes);
  both.fp32_flops = std::min(one.fp32_flops, other.fp32_flops);
  both.memory_rate = std::min(one.memory_rate, other.memory_rate);
  both.block_overhead = std::max(one.block_overhead, other.block_overhead);
  if (one.link_rate && other.link_rate) {
    both.link_rate = std::min(*one.link_rate, *other.link_rate);
    both.latency = std::max(*one.latency, *other.latency);
  } else {
    both.link_rate = both.latency = std::nullopt;
  }
  return both;
}

// The first process of each host measures for it.
MeasuredDevices measure_hosts(ControlPlane& control, const CpuCount& cpu) {
  const std::vector<int> hosts = hosts_of(control);
  const auto is_first = [&](int process) {
    return std::find(hosts.begin(), hosts.end(), hosts[static_cast<std::size_t>(process)]) - hosts.begin() == process;
  };
  Bytes mine;
  if (is_first(control.process())) mine = to_bytes(measure_devices(DeviceKind::cpu, cpu.devices, cpu.threads));
  const auto all = control.exchange("what the devices sustain", std::move(mine));
  MeasuredDevices devices = devices_of(all.front(), cpu);
  for (int process = 1; process < control.processes(); ++process) {
    if (is_first(process)) devices = slower(devices, devices_of(all[static_cast<std::size_t>(process)], cpu));
  }
  devices.hosts = hosts;
  return devices;
}

}  // namespace

MeasuredDevices measure_together(const ProcessOptions& processes, const CpuCount& cpu) {
  const auto control = join_processes(rendezvous_of(processes, cpu));
  MeasuredDevices devices = measure_hosts(*control, cpu);
  MeshShape shape;
  shape.pp = control->processes();
  const Mesh mesh(shape, deal_ranks(shape.pp, shape.pp));
  auto transport = make_transport(usual_transport(DeviceKind::cpu, devices.host_count() == 1), *control, mesh);
  for (const LinkMeasurement& link : measure_links(*control, *transport)) devices.links.push_back({link.rate, link.latency});
  transport.reset();
  control->leave();
  return devices;
}

}  // namespace pipetrain
