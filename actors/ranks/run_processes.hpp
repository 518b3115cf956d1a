// The processes of a run, as one of them sees them.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "actors/ranks/device_settings.hpp"
#include "actors/ranks/named_values.hpp"
#include "comm/control_plane.hpp"
#include "comm/transport.hpp"
#include "comm/world.hpp"
#include "core/mesh.hpp"

namespace pipetrain {

class EngineChannel;

// Process 0 decides, saves and reports; the others follow it. Ranks are dealt in order (deal_ranks). Whoever made the control
// plane calls leave() once the Trainer is gone, also after a failure: others that are still being built wait for that.
struct RunProcesses {
  std::shared_ptr<ControlPlane> control;   // that all have joined
  std::optional<TransportKind> transport;  // wanted; not given: see choose_transport()
  // Makes the transport in make_transport()'s stead, where it is given.
  std::function<std::unique_ptr<Transport>(ControlPlane&, const Mesh&)> make_transport;
};

// Processes that a job might run in, its ranks dealt to them in order, and what would join them.
struct PlannedProcesses {
  int processes = 1;
  TransportKind transport{};
};

// The ranks where they are, or dealt to the planned processes.
Mesh planned_mesh(const Mesh& mesh, const std::optional<PlannedProcesses>& planned);

// Ranks all in this process (null), or dealt to the processes in order, on the devices. Throws Error(input) for fewer ranks
// than processes, and when the devices name GPUs but not one for each rank of this process.
Mesh dealt_mesh(const MeshShape& shape, const DeviceSettings& devices, const RunProcesses* processes);
// Opens the devices of this process's ranks and, where there is a channel, the transport that the processes agree on. A process
// that it loses is one that the channel loses; it is aborted when another process fails while the run is built. Every process
// calls it at the same time. Throws as World, choose_transport() and make_transport() do.
World open_world(const Mesh& mesh, const DeviceSettings& devices, const RunProcesses* processes,
                 const std::shared_ptr<EngineChannel>& channel);

// Bytes of this host's memory that the run's other processes on it say they need; this one needs `own`. Every process calls it
// at the same time.
std::size_t host_bytes_of_others(EngineChannel& channel, std::size_t own);

// Throws Error(input) that names the first of a run's contents in which another process differs
// from process 0. Every process calls it at the same time.
void compare_contents(const NamedValues& contents, EngineChannel& channel);

}  // namespace pipetrain
