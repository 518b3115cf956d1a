// Passes messages from the engines of other processes to the actors of this one.
#pragma once

#include <memory>
#include <vector>

#include "actors/engine/remote/codec.hpp"
#include "actors/engine/remote/engine_channel.hpp"
#include "core/mesh.hpp"

namespace pipetrain {

// The receivers of messages; made once all of them exist.
struct DispatchTargets {
  std::shared_ptr<EngineChannel> channel;
  Mesh parts{MeshShape{}};  // of the run, with the process of each stage
  CodecLimits limits;
  // By rank of `parts`; for stages of other processes a remote stand-in in process 0, null elsewhere.
  std::vector<caf::actor> stages;
  std::vector<caf::actor> feeders;
  caf::actor supervisor;  // a RemoteSupervisorActor outside process 0
};

// A malformed message, or one that its sender must not send, ends the run with the sender's name.
EngineChannel::Receiver dispatch_in_process_0(DispatchTargets targets);
EngineChannel::Receiver dispatch_elsewhere(DispatchTargets targets);

}  // namespace pipetrain
