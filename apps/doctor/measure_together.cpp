#include "apps/doctor/measure_together.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "comm/control_plane.hpp"
#include "comm/measure_links.hpp"
#include "comm/transport.hpp"
#include "core/device.hpp"
#include "core/mesh.hpp"
#include "core/wire_fields.hpp"

namespace pipetrain {
namespace {

Rendezvous doctor_rendezvous(const ProcessOptions& processes, const MeasuredHost& own) {
  Rendezvous rendezvous = rendezvous_of(processes);
  rendezvous.label = "doctor";
  rendezvous.settings = {{"device", name_of(own.kind)},
                         {"threads", std::to_string(own.threads)},
                         {"transport", processes.transport ? to_string(*processes.transport) : "auto"}};
  return rendezvous;
}

// Returns the host of each process, numbered in order of their first processes.
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

MeasuredDevices measured_devices(const Bytes& bytes, const MeasuredHost& own) {
  auto devices = read_message<MeasuredDevices>(bytes);
  devices.kind = own.kind;
  devices.threads = own.threads;
  return devices;
}

// Returns the speeds that both sustain.
MeasuredDevices slower(const MeasuredDevices& one, const MeasuredDevices& other) {
  MeasuredDevices both = one;
  both.count = std::min(one.count, other.count);
  both.memory_bytes = std::min(one.memory_bytes, other.memory_bytes);
  both.fp32_flops = std::min(one.fp32_flops, other.fp32_flops);
  if (one.bf16_flops && other.bf16_flops) both.bf16_flops = std::min(*one.bf16_flops, *other.bf16_flops);
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

// The first process of each host measures for its host.
MeasuredDevices measure_hosts(ControlPlane& control, const MeasuredHost& own) {
  const std::vector<int> hosts = hosts_of(control);
  const auto is_first = [&](int process) {
    return std::find(hosts.begin(), hosts.end(), hosts[static_cast<std::size_t>(process)]) - hosts.begin() == process;
  };
  Bytes mine;
  if (is_first(control.process())) mine = to_bytes(measure_devices(own.kind, own.devices, own.threads));
  const auto all = control.exchange("the rates of the devices", std::move(mine));
  MeasuredDevices devices = measured_devices(all.front(), own);
  for (int process = 1; process < control.processes(); ++process) {
    if (is_first(process)) devices = slower(devices, measured_devices(all[static_cast<std::size_t>(process)], own));
  }
  devices.hosts = hosts;
  return devices;
}

}  // namespace

MeasuredTogether measure_together(const ProcessOptions& processes, const MeasuredHost& own) {
  const auto control = join_processes(doctor_rendezvous(processes, own));
  MeshShape shape;
  shape.pp = control->processes();
  const Mesh mesh(shape, deal_ranks(shape.pp, shape.pp));
  const TransportKind* wanted = processes.transport ? &*processes.transport : nullptr;
  MeasuredTogether measured;
  const TransportKind kind = choose_transport(*control, mesh, own.kind, wanted);
  measured.devices = measure_hosts(*control, own);
  const auto device = own.kind == DeviceKind::cpu ? make_cpu_device(0, 1) : make_cuda_device(own.gpu);
  auto transport = make_transport(kind, *control, mesh);
  for (const LinkMeasurement& link : measure_links(*control, *transport, *device))
    measured.devices.links.push_back({link.rate, link.latency});
  measured.transport = transport->description();
  transport.reset();
  control->leave();
  return measured;
}

}  // namespace pipetrain
