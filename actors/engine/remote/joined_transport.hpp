// What the processes of a run agree on before each builds its part of a pipeline: equal values, and the transport between them.
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

// What `make` makes for this mesh. A process that it loses is one that the channel loses; it is aborted when another process
// fails while the run is built. Every process calls it at the same time. Throws as `make` does.
std::shared_ptr<Transport> join_transport(const std::shared_ptr<ControlPlane>& control, const Mesh& mesh,
                                          const MakeTransport& make, const std::shared_ptr<EngineChannel>& channel);

// Throws Error(input) that names the first of these values, each of which has a name, in which another process differs from
// process 0: "has another NAME than process 0: " and `advice`. Every process calls it at the same time.
void compare_values(const std::vector<std::pair<std::string, std::string>>& values, const std::string& advice,
                    EngineChannel& channel);

}  // namespace pipetrain
