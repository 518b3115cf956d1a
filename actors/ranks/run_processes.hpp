// The processes of a run, from the view of one of them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "actors/ranks/device_settings.hpp"
#include "actors/ranks/named_values.hpp"
#include "comm/control_plane.hpp"
#include "comm/transport.hpp"
#include "comm/world.hpp"
#include "core/mesh.hpp"

namespace pipetrain {

class EngineChannel;
namespace control {
class SuccessivePlanes;
}

// Process 0 decides, saves and reports; the others follow it. Ranks are dealt to processes in order (deal_ranks). The
// owner of the control plane calls leave() once the Trainer is gone, also after a failure: others that are still being
// built wait for that.
struct RunProcesses {
  std::shared_ptr<ControlPlane> control;   // joined by all processes
  std::optional<TransportKind> transport;  // the transport to use; no value: see choose_transport()
  // Replaces make_transport() where it is not null.
  std::function<std::unique_ptr<Transport>(ControlPlane&, const Mesh&)> make_transport;
  // Gives the control planes that follow the first one, for a run that continues when processes are lost; null for others.
  // A Trainer then replaces `control`, and `process_of` by the processes that have taken over ranks.
  std::shared_ptr<control::SuccessivePlanes> planes;
  std::vector<int> process_of;  // by rank; empty: ranks are dealt in order
  int spares = 0;               // processes that keep no ranks while the others have some
  bool joins = false;           // this process joins a run that has begun: a Trainer calls SuccessivePlanes::join()
};

// Processes that a job might run in, with its ranks dealt to them in order, and the transport that would join them.
struct PlannedProcesses {
  int processes = 1;
  TransportKind transport{};
};

// Returns the mesh as it is, or with its ranks dealt to the planned processes.
Mesh planned_mesh(const Mesh& mesh, const std::optional<PlannedProcesses>& planned);

// Places all ranks in this process (processes: null), or deals them to the processes in order, on the devices. Throws
// Error(input) for fewer ranks than processes, and when the devices name GPUs but not one for each rank of this process.
Mesh dealt_mesh(const MeshShape& shape, const DeviceSettings& devices, const RunProcesses* processes);
// Opens the devices of this process's ranks and, given a channel, the transport that the processes agree on. A process
// that the transport loses counts as lost by the channel; the transport is aborted when another process fails during
// set-up. Every process calls it at the same time. Throws as World, choose_transport() and make_transport() do.
World open_world(const Mesh& mesh, const DeviceSettings& devices, const RunProcesses* processes,
                 const std::shared_ptr<EngineChannel>& channel);

// Returns the bytes of this machine's memory that the run's other processes on it need; this one needs `own`. Every
// process calls it at the same time.
std::size_t host_bytes_of_others(EngineChannel& channel, std::size_t own);

// Throws Error(input) with the name of the first value in which another process differs from process 0. Every process
// calls it at the same time.
void compare_contents(const NamedValues& contents, EngineChannel& channel);

}  // namespace pipetrain
