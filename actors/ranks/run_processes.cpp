#include "actors/ranks/run_processes.hpp"

#include <map>
#include <utility>

#include "actors/engine/remote/engine_channel.hpp"
#include "actors/engine/remote/joined_transport.hpp"
#include "core/error.hpp"
#include "core/wire.hpp"

namespace pipetrain {
namespace {

// Each rank has a device of its own in its process, in the order of ranks.
std::vector<RankLocation> places_in(const std::vector<int>& process_of) {
  std::map<int, int> devices;  // by process
  std::vector<RankLocation> places;
  for (const int process : process_of) places.push_back({process, devices[process]++});
  return places;
}

// Gives this process's ranks, of which it may have taken some over, the GPUs that they had at first.
void keep_gpus(const DeviceSettings& devices, const ControlPlane& control, std::vector<RankLocation>& places) {
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    if (places[rank].process != control.process()) continue;
    const auto gpu = devices.gpu_of_rank.find(static_cast<int>(rank));
    if (gpu == devices.gpu_of_rank.end())
      throw Error(ErrorKind::unavailable, "rank " + std::to_string(rank) +
                                              " had a GPU that this process does not see, and this " +
                                              "process cannot take it over; start the run again");
    places[rank].device = gpu->second;
  }
}

std::vector<RankLocation> places_of(int ranks, const DeviceSettings& devices, const RunProcesses* processes) {
  const ControlPlane* control = processes != nullptr ? processes->control.get() : nullptr;
  const bool in_order = processes == nullptr || processes->process_of.empty();
  std::vector<RankLocation> places =
      in_order ? deal_ranks(ranks, control ? control->processes() : 1) : places_in(processes->process_of);
  if (devices.kind == DeviceKind::cuda && !in_order && control != nullptr && !devices.gpu_of_rank.empty()) {
    keep_gpus(devices, *control, places);
    return places;
  }
  if (devices.kind == DeviceKind::cpu || devices.gpus.empty()) return places;
  std::size_t next = 0;
  for (RankLocation& place : places) {
    if (control != nullptr && place.process != control->process()) continue;
    if (next < devices.gpus.size()) place.device = devices.gpus[next];
    ++next;
  }
  if (next != devices.gpus.size()) {
    throw Error(ErrorKind::input, std::to_string(devices.gpus.size()) + " GPUs are given for " + std::to_string(next) +
                                      " ranks; give one GPU for each rank");
  }
  return places;
}

}  // namespace

Mesh dealt_mesh(const MeshShape& shape, const DeviceSettings& devices, const RunProcesses* processes) {
  return Mesh(shape, places_of(Mesh(shape).size(), devices, processes));
}

Mesh planned_mesh(const Mesh& mesh, const std::optional<PlannedProcesses>& planned) {
  return planned ? Mesh(mesh.shape(), deal_ranks(mesh.size(), planned->processes)) : mesh;
}

World open_world(const Mesh& mesh, const DeviceSettings& devices, const RunProcesses* processes,
                 const std::shared_ptr<EngineChannel>& channel) {
  const auto open = [&](int rank) {
    const int number = mesh.place(rank).device;
    return devices.kind == DeviceKind::cpu ? make_cpu_device(number, devices.threads) : make_cuda_device(number);
  };
  if (!channel) return World(mesh, 0, open);
  const auto make = [&](ControlPlane& control, const Mesh& kept) {
    if (processes->make_transport) return processes->make_transport(control, kept);
    const TransportKind* wanted = processes->transport ? &*processes->transport : nullptr;
    return make_transport(choose_transport(control, kept, devices.kind, wanted), control, kept);
  };
  return World(mesh, channel->process(), open, join_transport(processes->control, mesh, make, channel));
}

std::size_t host_bytes_of_others(EngineChannel& channel, std::size_t own) {
  WireWriter out;
  out.number(static_cast<std::uint64_t>(own));
  const auto all = channel.exchange("memory of the host", std::move(out).data());
  const auto host = [&](int process) { return channel.control().info(process).host; };
  std::size_t sum = 0;
  for (int process = 0; process < channel.processes(); ++process) {
    const bool same_host = process != channel.process() && host(process) == host(channel.process());
    if (same_host) sum += WireReader(all[static_cast<std::size_t>(process)]).number<std::uint64_t>();
  }
  return sum;
}

void compare_contents(const NamedValues& contents, EngineChannel& channel) {
  compare_values(contents, "give all processes the same files", channel);
}

}  // namespace pipetrain
