#include "comm/nccl/nccl_transport.hpp"

#include <chrono>
#include <memory>
#include <thread>

#include "comm/nccl/nccl_edges.hpp"

namespace pipetrain {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds drain_limit{2000};

}  // namespace

void NcclTransport::connect(Edges& edges) {
  closing_ = false;
  unsent_ = 0;
  ends_.connect(edges);
}

// Delivered data is sent, as far as the consumer still accepts it.
void NcclTransport::disconnect(Edges&) noexcept {
  const auto limit = Clock::now() + drain_limit;
  const auto wait_while = [&](const auto& busy) {
    while (busy() && !aborted() && Clock::now() < limit) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return !busy();
  };
  bool idle = wait_while([this] { return unsent_ > 0; });
  closing_ = true;
  idle = thread_.drain(drain_limit) && idle;
  for (const auto& [id, end] : ends_.all()) {
    for (const auto& lane : end.lanes) idle = wait_while([&] { return !lane->idle(); }) && idle;
  }
  if (!idle) NcclComm::abort(comms_.alive());
}

bool has_nccl() noexcept { return true; }

std::unique_ptr<Transport> make_nccl_transport(ControlPlane& control, const Mesh& mesh, NcclWay way) {
  static_cast<void>(nccl());
  return std::make_unique<NcclTransport>(control, mesh, way);
}

}  // namespace pipetrain
