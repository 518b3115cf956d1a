// Before each process of a run builds its part of a pipeline, they compare their values and make the transport between them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/control_plane.hpp"
#include "comm/transport.hpp"
#include "core/mesh.hpp"

namespace pipetrain {

class EngineChannel;

using MakeTransport = std::function<std::unique_ptr<Transport>(ControlPlane&, const Mesh&)>;

// Returns the transport that `make` makes for this mesh. A process that the transport loses counts as lost by the
// channel; the transport is aborted when another process fails during set-up. Every process calls it at the same time.
// Throws as `make` does.
std::shared_ptr<Transport> join_transport(const std::shared_ptr<ControlPlane>& control, const Mesh& mesh,
                                          const MakeTransport& make, const std::shared_ptr<EngineChannel>& channel);

// Each value has a name. Throws Error(input) for the first one in which another process differs from process 0: "has
// another NAME than process 0: ", then `advice`. Every process calls it at the same time.
void compare_values(const std::vector<std::pair<std::string, std::string>>& values, const std::string& advice,
                    EngineChannel& channel);

}  // namespace pipetrain
