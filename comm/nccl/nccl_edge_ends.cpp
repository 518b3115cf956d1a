#include "comm/nccl/nccl_edge_ends.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/nccl/nccl_put_signal.hpp"
#include "core/cuda/cuda_stream.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

std::size_t lanes_of(const EdgeReceiver& receiver) { return receiver.slots.empty() ? 0 : receiver.slots.front()->lanes.size(); }

// Tensor-parallel ranks of other processes read slots over CUDA IPC, which cannot open memory that can be a window.
bool ipc_reads_slots(const Mesh& mesh) {
  for (const auto& ranks : mesh.groups({Axis::tp})) {
    for (const int rank : ranks) {
      if (mesh.place(rank).process != mesh.place(ranks.front()).process) return true;
    }
  }
  return false;
}

// Returns why this process cannot put; empty: puts work.
std::string why_none(NcclWay way, const Mesh& mesh) {
  if (way == NcclWay::send) return "this run is to send";
  if (nccl_puts().functions == nullptr) return nccl_puts().missing;
  return ipc_reads_slots(mesh) ? "tensor-parallel ranks of several processes read slots over CUDA IPC" : "";
}

}  // namespace

NcclEdgeEnds::NcclEdgeEnds(ControlPlane& control, const Mesh& mesh, NcclComms& comms, NcclWay way)
    : control_(control), comms_(comms), way_(way), no_puts_(why_none(way, mesh)) {}

Buffer NcclEdgeEnds::slot_memory(Device& device, std::size_t bytes, const std::string& what) {
  return no_puts_.empty() ? memory_.allocate(device, bytes, what) : device.allocate(bytes, what);
}

Device& NcclEdgeEnds::device_of(const Lane& lane) {
  cudaPointerAttributes attributes{};
  const cudaError_t status = cudaPointerGetAttributes(&attributes, lane.tensor.data);
  if (status != cudaSuccess || attributes.type != cudaMemoryTypeDevice) {
    cudaGetLastError();
    throw Error(ErrorKind::internal, "a slot of an edge between GPUs is in no GPU's memory");
  }
  auto& device = devices_[attributes.device];
  if (!device) device = make_cuda_device(attributes.device);
  return *device;
}

std::string NcclEdgeEnds::description() const {
  if (putting_ == 0) return sending_ == 0 ? "nccl" : "nccl, sending";
  return sending_ == 0 ? "nccl, putting" : "nccl, putting and sending";
}

Bytes NcclEdgeEnds::introduce() const {
  WireWriter out;
  out.flag(no_puts_.empty());
  return std::move(out).data();
}

Bytes NcclEdgeEnds::offer(const EdgeReceiver& receiver) {
  const bool windows = std::all_of(receiver.slots.begin(), receiver.slots.end(), [this](const SlotHandle& slot) {
    return std::all_of(slot->lanes.begin(), slot->lanes.end(),
                       [this](const Lane& lane) { return memory_.gave(lane.tensor.data); });
  });
  WireWriter out;
  out.flag(windows);
  for (std::size_t lane = 0; lane < lanes_of(receiver); ++lane) out.bytes(make_nccl_id());
  return offers_[receiver.edge] = std::move(out).data();
}

// All begin to join before one waits, so the order in which the other process joins them does not matter.
void NcclEdgeEnds::connect(ControlledEdges& edges) {
  for (const auto& [id, receiver] : edges.receivers) connect_receiver(receiver);
  for (auto& [id, sender] : edges.senders) connect_sender(sender);
  for (const auto& [id, end] : ends_) {
    for (const auto& lane : end.lanes) lane->settle();
  }
  putting_ = sending_ = 0;
  for (auto& [id, end] : ends_) choose_way(edges, id, end);
  for (auto& [id, sender] : edges.senders) mirror(sender);
  rehearse(edges);
}

void NcclEdgeEnds::connect_receiver(const EdgeReceiver& receiver) {
  WireReader names(offers_.at(receiver.edge));
  names.flag();
  for (std::size_t i = 0; i < lanes_of(receiver); ++i) {
    const auto name = names.bytes();
    ends_[receiver.edge].lanes.push_back(
        std::make_unique<NcclLane>(comms_, Bytes(name.begin(), name.end()), NcclLane::End::consumer,
                                   device_of(receiver.slots.front()->lanes[i]), receiver.from));
  }
}

void NcclEdgeEnds::connect_sender(ControlledSender& sender) {
  WireReader names(sender.offer.extra);
  names.flag();
  for (Device* device : sender.edge.devices) {
    const auto name = names.bytes();
    ends_[sender.edge.edge].lanes.push_back(
        std::make_unique<NcclLane>(comms_, Bytes(name.begin(), name.end()), NcclLane::End::producer, *device, sender.edge.to));
  }
  names.end();
}

// Both ends of an edge reach the same decision: each has told the other what it alone knows, and the communicator knows
// the rest.
std::string NcclEdgeEnds::why_not_put(const ControlledEdges& edges, EdgeId id) const {
  if (!no_puts_.empty()) return no_puts_;
  const auto sender = edges.senders.find(id);
  const bool sends = sender != edges.senders.end();
  const int other = sends ? sender->second.edge.to : edges.receivers.at(id).from;
  if (!WireReader(edges.introductions[static_cast<std::size_t>(other)]).flag()) {
    return to_string(control_.info(other)) + " cannot";
  }
  if (!WireReader(sends ? sender->second.offer.extra : offers_.at(id)).flag())
    return "its slots are not in memory that NCCL allocated";
  const auto& lanes = ends_.at(id).lanes;
  const bool all = std::all_of(lanes.begin(), lanes.end(), [](const auto& lane) { return lane->can_put(); });
  return all ? "" : "NCCL cannot put between these GPUs";
}

void NcclEdgeEnds::choose_way(const ControlledEdges& edges, EdgeId id, NcclEnd& end) {
  const std::string why = why_not_put(edges, id);
  if (way_ == NcclWay::put && !why.empty()) {
    throw Error(ErrorKind::unavailable, Setting{"transport", "nccl-put"},
                "edge " + std::to_string(id) + " cannot be put: " + why);
  }
  end.puts = why.empty();
  ++(end.puts ? putting_ : sending_);
}

void NcclEdgeEnds::mirror(ControlledSender& sender) {
  const bool puts = ends_.at(sender.edge.edge).puts;
  const std::string what = "results in flight to another process";
  for (const auto& lanes : sender.offer.slots) {
    auto slot = std::make_shared<Slot>();
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      Device& device = *sender.edge.devices[i];
      Lane lane;
      mirror_memory_.push_back(puts ? memory_.allocate(device, lanes[i].capacity, what)
                                    : device.allocate(lanes[i].capacity, what));
      lane.tensor = {mirror_memory_.back().data(), lanes[i].shape, lanes[i].dtype};
      lane.capacity = lanes[i].capacity;
      lane.ready = device.make_event();
      lane.free = device.make_event();
      lane.rank = lanes[i].rank;
      slot->lanes.push_back(lane);
    }
    sender.mirrors.push_back(slot);
  }
}

// Each is enqueued by its own thread, because it waits for its peer, which may start with another edge.
void NcclEdgeEnds::rehearse(const ControlledEdges& edges) {
  std::vector<std::thread> threads;
  for (auto& [id, end] : ends_) {
    const auto receiver = edges.receivers.find(id);
    const bool sends = receiver == edges.receivers.end();
    const auto& slots = sends ? edges.senders.at(id).mirrors : receiver->second.slots;
    for (std::size_t i = 0; i < end.lanes.size(); ++i) {
      std::vector<Lane> lanes;
      for (const SlotHandle& slot : slots) lanes.push_back(slot->lanes[i]);
      threads.emplace_back([&lane = *end.lanes[i], lanes = std::move(lanes), puts = end.puts] {
        if (puts) lane.use_puts(lanes);
        lane.rehearse(lanes.front());
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& [id, end] : ends_) {
    for (const auto& lane : end.lanes) lane->synchronize();
  }
}

void NcclEdgeEnds::clear() noexcept {
  ends_.clear();  // waits for the streams
  mirror_memory_.clear();
  offers_.clear();
}

}  // namespace pipetrain
