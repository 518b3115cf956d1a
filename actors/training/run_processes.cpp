#include "actors/training/run_processes.hpp"

#include <utility>

#include "actors/engine/remote/engine_channel.hpp"
#include "core/error.hpp"
#include "core/wire.hpp"

namespace pipetrain {
namespace {

Bytes bytes_of(const NamedValues& values) {
  WireWriter out;
  out.list(values, [&](const auto& value) {
    out.text(value.first);
    out.text(value.second);
  });
  return std::move(out).data();
}

NamedValues values_of(const Bytes& bytes) {
  WireReader in(bytes);
  NamedValues values(in.count(2 * sizeof(std::uint32_t)));
  for (auto& [name, value] : values) {
    name = in.text();
    value = in.text();
  }
  in.end();
  return values;
}

std::vector<RankPlace> places_of(int ranks, const DeviceSettings& devices, const RunProcesses* processes) {
  const ControlPlane* control = processes != nullptr ? processes->control.get() : nullptr;
  std::vector<RankPlace> places = deal_ranks(ranks, control ? control->processes() : 1);
  if (devices.kind == DeviceKind::cpu || devices.gpus.empty()) return places;
  std::size_t next = 0;
  for (RankPlace& place : places) {
    if (control != nullptr && place.process != control->process()) continue;
    if (next < devices.gpus.size()) place.device = devices.gpus[next];
    ++next;
  }
  if (next != devices.gpus.size()) {
    throw Error(ErrorKind::input,
                std::to_string(devices.gpus.size()) + " GPUs are given for " + std::to_string(next) + " ranks");
  }
  return places;
}

std::unique_ptr<Transport> make(const RunProcesses& processes, const Mesh& mesh, DeviceKind devices) {
  if (processes.make_transport) return processes.make_transport(*processes.control, mesh);
  const TransportKind* wanted = processes.transport ? &*processes.transport : nullptr;
  return make_transport(choose_transport(*processes.control, mesh, devices, wanted), *processes.control, mesh);
}

}  // namespace

Mesh dealt_mesh(const MeshShape& shape, const DeviceSettings& devices, const RunProcesses* processes) {
  return Mesh(shape, places_of(Mesh(shape).size(), devices, processes));
}

std::unique_ptr<Device> open_device(const DeviceSettings& devices, int number) {
  return devices.kind == DeviceKind::cpu ? make_cpu_device(number, devices.threads) : make_cuda_device(number);
}

std::shared_ptr<Transport> open_transport(const RunProcesses& processes, const Mesh& mesh, DeviceKind devices,
                                          const std::shared_ptr<EngineChannel>& channel) {
  const auto kept = std::make_shared<const Mesh>(mesh);  // as long as the transport, which reads it
  std::unique_ptr<Transport> made = make(processes, *kept, devices);
  const std::shared_ptr<Transport> transport(made.release(),
                                             [kept, control = processes.control](Transport* gone) { delete gone; });
  transport->on_lost([channel](int process, const std::string& why) { channel->lose(process, why); });
  channel->on_failure([weak = std::weak_ptr(transport)](const Failure& failure) {
    if (const auto still = weak.lock()) still->abort(exception_of(failure));
  });
  return transport;
}

std::size_t host_bytes_of_others(EngineChannel& channel, std::size_t own) {
  WireWriter out;
  out.number(static_cast<std::uint64_t>(own));
  const auto all = channel.exchange("memory of the host", std::move(out).data());
  const auto host = [&](int process) { return channel.control().info(process).host; };
  std::size_t sum = 0;
  for (int process = 0; process < channel.processes(); ++process) {
    const bool beside = process != channel.process() && host(process) == host(channel.process());
    if (beside) sum += WireReader(all[static_cast<std::size_t>(process)]).number<std::uint64_t>();
  }
  return sum;
}

void compare_contents(const NamedValues& contents, EngineChannel& channel) {
  const auto all = channel.exchange("contents of the job", bytes_of(contents));
  const NamedValues first = values_of(all.front());
  for (int process = 1; process < channel.processes(); ++process) {
    const NamedValues other = values_of(all[static_cast<std::size_t>(process)]);
    for (std::size_t i = 0; i < first.size(); ++i) {
      if (i < other.size() && other[i] == first[i]) continue;
      const std::string place = to_string(channel.control().info(process));
      throw Error(ErrorKind::input,
                  place + " has another " + first[i].first + " than process 0: give all processes the same files", nullptr,
                  true);
    }
  }
}

}  // namespace pipetrain
