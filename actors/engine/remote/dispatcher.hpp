// From the messages of other processes' engines to the actors of this one.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "actors/engine/remote/codec.hpp"
#include "actors/engine/remote/engine_channel.hpp"
#include "core/mesh.hpp"

namespace pipetrain {

// Who is told what; made once all of them are there.
struct DispatchTargets {
  std::shared_ptr<EngineChannel> channel;
  Mesh parts{MeshShape{}};  // of the run: where each stage runs
  CodecLimits limits;
  std::vector<caf::actor> stages;  // by rank of `parts`; in process 0 remote ones for those of others, elsewhere null for them
  std::vector<caf::actor> feeders;
  caf::actor supervisor;  // or what stands for it
};

// A message that is none, or that its sender has no business to send, ends the run with the sender's name.
EngineChannel::Receiver dispatch_in_process_0(DispatchTargets targets);
EngineChannel::Receiver dispatch_elsewhere(DispatchTargets targets);

}  // namespace pipetrain
