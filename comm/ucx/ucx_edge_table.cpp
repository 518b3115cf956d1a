#include "comm/ucx/ucx_edge_table.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "comm/ucx/ucx_header.hpp"
#include "comm/ucx/ucx_peers.hpp"
#include "core/device.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

struct LaneDescription {
  std::uint64_t capacity = 0;
  DType dtype = DType::f32;
  Shape shape;

  static void wire_fields(auto& wire, auto& lane) {
    wire(lane.capacity);
    wire.choice(lane.dtype, DType::i32);
    wire(lane.shape);
  }
};

// A process's descriptions of its ends. `other` is the process at the other end.
struct ReceiverDescription {
  int other = 0;
  std::uint32_t slots = 0;
  std::vector<LaneDescription> lanes;
  // The memory of slots that may be mapped, and the address in it of each lane of each slot.
  std::vector<SharedMemoryName> memory;
  std::vector<std::uint64_t> addresses;

  template <class Wire>
  static void wire_fields(Wire& wire, auto& end) {
    wire(end.other, end.slots, end.lanes, end.memory, end.addresses);
    if (Wire::reads && !end.addresses.empty() && end.addresses.size() != std::size_t{end.slots} * end.lanes.size())
      WireReader::refuse("another number of places than lanes");
  }
};

struct SenderDescription {
  int other = 0;
  std::uint32_t lanes = 0;  // how many

  static void wire_fields(auto& wire, auto& end) { wire(end.other, end.lanes); }
};

struct Described {
  std::map<EdgeId, ReceiverDescription> receivers;
  std::map<EdgeId, SenderDescription> senders;

  static void wire_fields(auto& wire, auto& ends) { wire(ends.receivers, ends.senders); }
};

using MirrorNames = std::vector<std::pair<int, SharedMemoryName>>;  // with the process that receives

// Names no memory of slots that cannot be shared.
ReceiverDescription describe(const EdgeReceiver& end, const NameOfLane& name_of) {
  ReceiverDescription description;
  description.other = end.from;
  description.slots = static_cast<std::uint32_t>(end.slots.size());
  if (end.slots.empty()) return description;
  for (const Lane& lane : end.slots.front()->lanes)
    description.lanes.push_back({lane.capacity, lane.tensor.dtype, lane.tensor.shape});
  if (!is_shared(end, name_of)) return description;
  std::map<std::uint64_t, SharedMemoryName> names;  // by address
  for (const SlotHandle& slot : end.slots) {
    for (const Lane& lane : slot->lanes) {
      const SharedMemoryName name = *name_of(lane);
      names.emplace(name.address, name);
      description.addresses.push_back(reinterpret_cast<std::uintptr_t>(lane.tensor.data));
    }
  }
  for (const auto& [address, name] : names) description.memory.push_back(name);
  return description;
}

[[noreturn]] void refuse_edge(EdgeId edge, const std::string& why) {
  throw Error(ErrorKind::internal, "edge " + std::to_string(edge) + ": " + why);
}

// Returns the description of the other end of an edge of this process.
template <class Description>
const Description& other_end(const std::map<EdgeId, Description>& ends, EdgeId edge, int process, int self) {
  const auto found = ends.find(edge);
  if (found == ends.end() || found->second.other != self) {
    refuse_edge(edge, "process " + std::to_string(process) + " lacks the other end of an edge for which process " +
                          std::to_string(self) + " has an end");
  }
  return found->second;
}

void check_devices(const EdgeSender& end) {
  for (const Device* device : end.devices) {
    if (device->id().kind != DeviceKind::cpu) refuse_edge(end.edge, "UCX carries the memory of CPUs only");
  }
}

Lane mirror_lane(Device& device, const LaneDescription& description, void* data) {
  Lane lane;
  lane.tensor = {data, description.shape, description.dtype};
  lane.capacity = description.capacity;
  lane.ready = device.make_event();
  return lane;
}

// Returns the receiver's memory at this address; null where the mapping does not contain all of it.
std::byte* mapped_at(const UcxSendingEdge& edge, std::uint64_t address, std::size_t bytes) {
  for (const auto& memory : edge.slots) {
    if (std::byte* data = memory->writable_at(address, bytes)) return data;
  }
  return nullptr;
}

// Makes the slots themselves the mirrors. Returns false, without changes, where they cannot be mapped.
bool mirror_in_place(UcxSendingEdge& edge, const ReceiverDescription& receiver, std::int64_t pid) {
  for (const SharedMemoryName& name : receiver.memory) {
    if (auto memory = MappedMemory::open(pid, name, MappedMemory::Access::write)) edge.slots.push_back(std::move(memory));
  }
  const std::size_t lanes = receiver.lanes.size();
  std::vector<std::byte*> places;
  for (std::size_t i = 0; i < receiver.addresses.size(); ++i) {
    places.push_back(mapped_at(edge, receiver.addresses[i], receiver.lanes[i % lanes].capacity));
  }
  if (places.empty() || std::count(places.begin(), places.end(), nullptr) > 0) {
    edge.slots.clear();
    return false;
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    edge.mirrors[i / lanes]->lanes.push_back(mirror_lane(*edge.end.devices[i % lanes], receiver.lanes[i % lanes], places[i]));
  }
  return true;
}

// Makes one buffer per lane, which holds that lane of every mirror.
void make_mirrors(UcxSendingEdge& edge, const ReceiverDescription& receiver) {
  for (std::size_t i = 0; i < receiver.lanes.size(); ++i) {
    const LaneDescription& description = receiver.lanes[i];
    const std::size_t stride = align_up(description.capacity);
    Device& device = *edge.end.devices[i];
    const std::string what = "what goes to process " + std::to_string(edge.end.to);
    const std::size_t bytes = stride * receiver.slots;
    // Small messages are sent, so nobody maps their mirrors.
    edge.buffers.push_back(stride > UcxMessages::most_sent
                               ? allocate_shared(device, bytes, what)
                               : SharedBuffer{device.allocate(bytes, what), std::nullopt, FileDescriptor()});
    for (std::uint32_t slot = 0; slot < receiver.slots; ++slot) {
      auto* data = static_cast<std::byte*>(edge.buffers.back().memory.data()) + slot * stride;
      edge.mirrors[slot]->lanes.push_back(mirror_lane(device, description, data));
    }
  }
}

// pid: of the receiver, where it runs on this machine.
UcxSendingEdge make_sending(EdgeSender end, const ReceiverDescription& receiver, std::optional<std::int64_t> pid) {
  check_devices(end);
  if (receiver.lanes.size() != end.devices.size()) {
    refuse_edge(end.edge,
                std::to_string(end.devices.size()) + " ranks send, and " + std::to_string(receiver.lanes.size()) + " receive");
  }
  UcxSendingEdge edge;
  edge.end = std::move(end);
  edge.fillings.assign(receiver.slots, 0);
  edge.credited = std::make_unique<std::atomic<bool>[]>(receiver.slots);
  for (std::uint32_t slot = 0; slot < receiver.slots; ++slot) edge.mirrors.push_back(std::make_shared<Slot>());
  if (!pid || !mirror_in_place(edge, receiver, *pid)) make_mirrors(edge, receiver);
  return edge;
}

UcxReceivingEdge make_receiving(EdgeReceiver end, const SenderDescription& sender) {
  const std::size_t lanes = end.slots.empty() ? 0 : end.slots.front()->lanes.size();
  if (sender.lanes != lanes) {
    refuse_edge(end.edge, std::to_string(sender.lanes) + " ranks send, and " + std::to_string(lanes) + " receive");
  }
  UcxReceivingEdge edge;
  edge.states.resize(end.slots.size());
  for (auto& state : edge.states) state.begun.assign(std::max<std::size_t>(lanes, 1), false);
  edge.end = std::move(end);
  return edge;
}

}  // namespace

std::set<int> UcxEdgeTable::peers() const {
  std::set<int> processes;
  for (const auto& [id, edge] : receiving) processes.insert(edge.end.from);
  for (const auto& [id, edge] : sending) processes.insert(edge.end.to);
  return processes;
}

bool UcxEdgeTable::is_still() const {
  return std::all_of(moving.begin(), moving.end(), [](const auto& one) { return one.second == 0; });
}

bool is_shared(const EdgeReceiver& end, const NameOfLane& name_of) {
  const auto has_names = [&](const SlotHandle& slot) {
    return !slot->lanes.empty() &&
           std::all_of(slot->lanes.begin(), slot->lanes.end(), [&](const Lane& lane) { return name_of(lane).has_value(); });
  };
  return !end.slots.empty() && std::all_of(end.slots.begin(), end.slots.end(), has_names);
}

Bytes describe_edges(const std::vector<EdgeReceiver>& receivers, const std::vector<EdgeSender>& senders,
                     const NameOfLane& name_of) {
  Described described;
  for (const EdgeReceiver& end : receivers) described.receivers[end.edge] = describe(end, name_of);
  for (const EdgeSender& end : senders)
    described.senders[end.edge] = {.other = end.to, .lanes = static_cast<std::uint32_t>(end.devices.size())};
  return to_bytes(described);
}

Bytes describe_mirrors(const UcxEdgeTable& table) {
  MirrorNames names;
  for (const auto& [id, edge] : table.sending) {
    for (const SharedBuffer& buffer : edge.buffers) {
      if (buffer.name) names.emplace_back(edge.end.to, *buffer.name);
    }
  }
  return to_bytes(names);
}

std::map<int, std::vector<SharedMemoryName>> mirrors_for(int process, const std::vector<Bytes>& described) {
  std::map<int, std::vector<SharedMemoryName>> names;
  for (std::size_t peer = 0; peer < described.size(); ++peer)
    for (const auto& [receiver, name] : read_message<MirrorNames>(described[peer]))
      if (receiver == process) names[static_cast<int>(peer)].push_back(name);
  return names;
}

std::shared_ptr<UcxEdgeTable> make_edge_table(const ControlPlane& control, const std::vector<Bytes>& described,
                                              std::vector<EdgeReceiver> receivers, std::vector<EdgeSender> senders) {
  std::vector<Described> all;
  for (const Bytes& bytes : described) all.push_back(read_message<Described>(bytes));
  const int self = control.process();
  const auto of = [&](int process, EdgeId edge) -> const Described& {
    if (process < 0 || process >= control.processes() || process == self)
      refuse_edge(edge, "no other process is at its other end");
    return all[static_cast<std::size_t>(process)];
  };
  auto table = std::make_shared<UcxEdgeTable>();
  for (auto& end : receivers) {
    const EdgeId id = end.edge;
    const auto& sender = other_end(of(end.from, id).senders, id, end.from, self);
    table->receiving.emplace(id, make_receiving(std::move(end), sender));
  }
  for (auto& end : senders) {
    const EdgeId id = end.edge;
    const ProcessInfo& there = control.info(end.to);
    const bool same_machine = !there.machine.empty() && there.machine == control.info(self).machine;
    const auto& receiver = other_end(of(end.to, id).receivers, id, end.to, self);
    table->sending.emplace(id, make_sending(std::move(end), receiver, same_machine ? std::optional(there.pid) : std::nullopt));
  }
  return table;
}

}  // namespace pipetrain
