// The processes of a run, as one of them sees them.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "comm/control_plane.hpp"
#include "comm/transport.hpp"

namespace pipetrain {

// Process 0 decides, saves and reports; the others follow it. Ranks are dealt in order (deal_ranks). Whoever made the control
// plane calls leave() once the Trainer is gone, also after a failure: others that are still being built wait for that.
struct RunProcesses {
  std::shared_ptr<ControlPlane> control;   // that all have joined
  std::optional<TransportKind> transport;  // wanted; not given: see choose_transport()
  // Makes the transport in make_transport()'s stead, where it is given.
  std::function<std::unique_ptr<Transport>(ControlPlane&, const Mesh&)> make_transport;
};

}  // namespace pipetrain
