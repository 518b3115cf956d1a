#include "comm/nccl/nccl_transport.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/controlled_transport.hpp"
#include "comm/cuda/gpu_groups.hpp"
#include "comm/cuda/ipc_group.hpp"
#include "comm/nccl/nccl_comms.hpp"
#include "comm/nccl/nccl_group.hpp"
#include "comm/nccl/nccl_groups.hpp"
#include "comm/nccl/nccl_lane.hpp"
#include "comm/task_thread.hpp"
#include "core/cuda_stream.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds watch_interval{100}, drain_limit{2000};

// Whether the GPUs have reached this event of all lanes.
bool all_reached(const Slot& slot, std::shared_ptr<Event> Lane::*event) {
  return std::all_of(slot.lanes.begin(), slot.lanes.end(),
                     [&](const Lane& lane) { return !(lane.*event) || (lane.*event)->query(); });
}

std::size_t lanes_of(const EdgeReceiver& receiver) { return receiver.slots.empty() ? 0 : receiver.slots.front()->lanes.size(); }

class NcclTransport final : public ControlledTransport {
 public:
  NcclTransport(ControlPlane& control, const Mesh& mesh)
      : ControlledTransport(control, mesh),
        groups_(control, mesh, comms_, sender_of(GroupKind::nccl)),
        tensor_groups_(mesh, control.process(), sender_of(GroupKind::ipc)),
        thread_([this] { watch(); }, watch_interval) {
    static_cast<void>(nccl());
    listen();
  }
  ~NcclTransport() override { stop_listening(); }

  std::map<int, std::shared_ptr<Group>> group(const std::vector<int>& ranks, std::uint32_t number,
                                              const std::map<int, Device*>& devices, GroupUse use) override {
    if (!is_tensor_group(mesh(), ranks)) return groups_.make(ranks, number, devices, use);
    require_one_host(control(), mesh(), ranks);
    return tensor_groups_.make(ranks, number, devices, use);
  }
  std::size_t group_memory(int ranks) const override { return nccl_group_memory(ranks); }
  // The mirrors are this process's own memory.
  LinkKind link(int, int) const override { return LinkKind::same_memory; }

 private:
  using Lanes = std::vector<std::unique_ptr<NcclLane>>;
  enum class GroupKind : std::uint8_t { nccl, ipc };  // whom a message about groups is for

  NcclComms comms_;
  NcclGroups groups_;
  IpcGroups tensor_groups_;                         // each on one host, where its kernels reach the others' memory
  std::map<int, std::unique_ptr<Device>> devices_;  // for the streams of receiving ends, by number
  std::map<EdgeId, Lanes> lanes_;                   // fixed while edges are open
  std::map<EdgeId, Bytes> names_;                   // of edges that this process receives from, lane after lane
  std::vector<Buffer> mirror_memory_;
  std::atomic<int> unsent_{0};        // delivered mirrors
  std::atomic<bool> closing_{false};  // what still waits is dropped
  TaskThread thread_;                 // does all transfers of edges; the last member: it uses the others

  bool over() const { return aborted() || closing_; }
  void watch();

  // --- Set-up -------------------------------------------------------------------------------------------------------------

  Bytes introduce(const Edges&) override { return {}; }
  Bytes offer(const EdgeReceiver& receiver) override;
  void connect(Edges& edges) override;
  void connect_receiver(const EdgeReceiver& receiver);
  void connect_sender(Sender& sender);
  void mirror(Sender& sender);
  void rehearse(const Edges& edges);
  void disconnect(Edges& edges) noexcept override;
  void disconnected() noexcept override;
  Device& device_of(const Lane& lane);

  // --- In steps -----------------------------------------------------------------------------------------------------------

  void send(const std::shared_ptr<Edges>& edges, Sender& sender, Delivery delivery) override;
  void land(const std::shared_ptr<Edges>& edges, EdgeReceiver& receiver, const Delivery& delivery) override;
  void posted(const std::shared_ptr<Edges>& edges, Sender& sender, int number) override;
  void take(const std::shared_ptr<Edges>& edges, Sender& sender, const SlotCredit& credit) override;
  void group_message(int from, WireReader& in) override {
    const GroupKind kind = in.choice(GroupKind::ipc);
    WireReader message(in.bytes());
    in.end();
    if (kind == GroupKind::ipc) return tensor_groups_.handle(from, message);
    groups_.handle(message);
  }
  std::function<void(int, const Bytes&)> sender_of(GroupKind kind) {
    return [this, kind](int process, const Bytes& message) {
      WireWriter out = begin_group_message();
      out.number(kind);
      out.bytes(message);
      send_to(process, std::move(out));
    };
  }
  void on_abort(const std::exception_ptr& cause) noexcept override {
    groups_.abort(cause);
    tensor_groups_.abort(cause);
    comms_.abort();
  }
};

// --- Set-up ---------------------------------------------------------------------------------------------------------------

Device& NcclTransport::device_of(const Lane& lane) {
  cudaPointerAttributes attributes{};
  const cudaError_t status = cudaPointerGetAttributes(&attributes, lane.tensor.data);
  if (status != cudaSuccess || attributes.type != cudaMemoryTypeDevice) {
    cudaGetLastError();
    throw Error(ErrorKind::internal, "a slot of an edge between GPUs lies in no GPU's memory");
  }
  auto& device = devices_[attributes.device];
  if (!device) device = make_cuda_device(attributes.device);
  return *device;
}

Bytes NcclTransport::offer(const EdgeReceiver& receiver) {
  WireWriter out;
  for (std::size_t lane = 0; lane < lanes_of(receiver); ++lane) out.bytes(make_nccl_id());
  return names_[receiver.edge] = std::move(out).data();
}

// All begin to join before one waits: which of them the other process comes to first does not matter.
void NcclTransport::connect(Edges& edges) {
  closing_ = false;
  unsent_ = 0;
  for (const auto& [id, receiver] : edges.receivers) connect_receiver(receiver);
  for (auto& [id, sender] : edges.senders) connect_sender(sender);
  for (const auto& [id, lanes] : lanes_) {
    for (const auto& lane : lanes) lane->settle();
  }
  for (auto& [id, sender] : edges.senders) mirror(sender);
  rehearse(edges);
}

void NcclTransport::connect_receiver(const EdgeReceiver& receiver) {
  WireReader names(names_.at(receiver.edge));
  for (std::size_t i = 0; i < lanes_of(receiver); ++i) {
    const auto name = names.bytes();
    lanes_[receiver.edge].push_back(std::make_unique<NcclLane>(comms_, Bytes(name.begin(), name.end()), NcclLane::End::consumer,
                                                               device_of(receiver.slots.front()->lanes[i]), receiver.from));
  }
}

void NcclTransport::connect_sender(Sender& sender) {
  WireReader names(sender.offer.extra);
  for (Device* device : sender.edge.devices) {
    const auto name = names.bytes();
    lanes_[sender.edge.edge].push_back(
        std::make_unique<NcclLane>(comms_, Bytes(name.begin(), name.end()), NcclLane::End::producer, *device, sender.edge.to));
  }
  names.end();
}

void NcclTransport::mirror(Sender& sender) {
  for (const auto& lanes : sender.offer.slots) {
    auto slot = std::make_shared<Slot>();
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      Device& device = *sender.edge.devices[i];
      Lane lane;
      mirror_memory_.push_back(device.allocate(lanes[i].capacity, "results on their way to another process"));
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

// All are enqueued by threads of their own, because each waits for its peer, which may come to another one first.
void NcclTransport::rehearse(const Edges& edges) {
  std::vector<std::thread> threads;
  for (const auto& [id, lanes] : lanes_) {
    const auto receiver = edges.receivers.find(id);
    const bool sends = receiver == edges.receivers.end();
    const Slot& slot = sends ? *edges.senders.at(id).mirrors.front() : *receiver->second.slots.front();
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      threads.emplace_back([&end = *lanes[i], &lane = slot.lanes[i]] { end.rehearse(lane); });
    }
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& [id, lanes] : lanes_) {
    for (const auto& lane : lanes) lane->synchronize();
  }
}

// What was delivered is sent, as far as the consumer still takes it.
void NcclTransport::disconnect(Edges&) noexcept {
  const auto limit = Clock::now() + drain_limit;
  const auto wait_while = [&](const auto& busy) {
    while (busy() && !aborted() && Clock::now() < limit) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return !busy();
  };
  bool idle = wait_while([this] { return unsent_ > 0; });
  closing_ = true;
  idle = thread_.drain(drain_limit) && idle;
  for (const auto& [id, lanes] : lanes_) {
    for (const auto& lane : lanes) idle = wait_while([&] { return !lane->idle(); }) && idle;
  }
  if (!idle) NcclComm::abort(comms_.alive());
}

void NcclTransport::disconnected() noexcept {
  lanes_.clear();  // waits for the streams
  mirror_memory_.clear();
  names_.clear();
}

// --- In steps -------------------------------------------------------------------------------------------------------------

// The message leaves once the data is ready, so that neither end's kernel holds multiprocessors while it waits for the other
// GPU.
void NcclTransport::send(const std::shared_ptr<Edges>& edges, Sender& sender, Delivery delivery) {
  const SlotHandle slot = sender.mirrors[static_cast<std::size_t>(delivery.slot)];
  ++unsent_;
  thread_.add_when(
      sender.edge.edge, [this, slot] { return over() || all_reached(*slot, &Lane::ready); },
      [this, edges, &sender, delivery = std::move(delivery)] {
        if (!over()) tell(sender, delivery);
      });
}

// The producer hears of it before the receive is enqueued, so that both ends begin at about the same time.
void NcclTransport::land(const std::shared_ptr<Edges>& edges, EdgeReceiver& receiver, const Delivery& delivery) {
  const SlotHandle slot = receiver.slots[static_cast<std::size_t>(delivery.slot)];
  thread_.add_when(
      receiver.edge, [this, slot] { return over() || all_reached(*slot, &Lane::free); },
      [this, edges, &receiver, slot, number = delivery.slot, microbatch = delivery.microbatch] {
        if (over()) return;
        tell_posted(receiver, number);
        const Lanes& lanes = lanes_.at(receiver.edge);
        for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i]->transfer(slot->lanes[i]);
        if (this->edges() == edges) receiver.arrived(number, microbatch);
      });
}

void NcclTransport::posted(const std::shared_ptr<Edges>& edges, Sender& sender, int number) {
  thread_.add([this, edges, &sender, number] {
    if (over()) return;
    const Lanes& lanes = lanes_.at(sender.edge.edge);
    const Slot& slot = *sender.mirrors[static_cast<std::size_t>(number)];
    for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i]->transfer(slot.lanes[i]);
    --unsent_;
  });
}

// Behind the sends that were given to the thread before: the mirror is free once its own is recorded.
void NcclTransport::take(const std::shared_ptr<Edges>& edges, Sender& sender, const SlotCredit& credit) {
  thread_.add([this, edges, &sender, slot = credit.slot] {
    if (!aborted() && this->edges() == edges) sender.edge.credit(slot);
  });
}

void NcclTransport::watch() {
  if (aborted()) return;
  const NcclComms::Failure failure = comms_.failure();
  if (failure.process >= 0) lose(failure.process, failure.why);
}

}  // namespace

bool has_nccl() noexcept { return true; }

std::unique_ptr<Transport> make_nccl_transport(ControlPlane& control, const Mesh& mesh) {
  return std::make_unique<NcclTransport>(control, mesh);
}

}  // namespace pipetrain
