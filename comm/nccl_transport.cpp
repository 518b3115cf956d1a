#include "comm/nccl_transport.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/controlled_transport.hpp"
#include "comm/gpu_groups.hpp"
#include "comm/nccl_comm.hpp"
#include "comm/nccl_group.hpp"
#include "comm/task_thread.hpp"
#include "core/cuda_stream.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

// Multiprocessors of each side of an edge: products need the others.
constexpr int edge_blocks = 4;
constexpr std::chrono::milliseconds watch_interval{100}, drain_limit{2000};
constexpr std::chrono::seconds id_limit{300};
constexpr int producer = 0, consumer = 1;  // ranks of an edge's communicator

// One end of one lane of an edge.
struct LaneEnd {
  Device* device = nullptr;
  std::shared_ptr<NcclComm> comm;
  std::shared_ptr<CudaStream> stream;
};

class NcclTransport final : public ControlledTransport {
 public:
  NcclTransport(ControlPlane& control, const Mesh& mesh)
      : ControlledTransport(control, mesh), thread_([this] { watch(); }, watch_interval) {
    static_cast<void>(nccl());
    listen();
  }
  ~NcclTransport() override {
    stop_listening();
    if (aborter_.joinable()) aborter_.join();
  }

  std::map<int, std::shared_ptr<Group>> group(const std::vector<int>& ranks, std::uint32_t number,
                                              const std::map<int, Device*>& devices, GroupUse use) override;
  // The mirrors are this process's own memory.
  LinkKind link(int, int) const override { return LinkKind::same_memory; }

 private:
  std::map<int, std::unique_ptr<Device>> devices_;  // for the streams of receiving ends, by number
  std::map<EdgeId, std::vector<LaneEnd>> ends_;     // by lane; fixed while edges are open
  std::map<EdgeId, Bytes> ids_;                     // of edges that this process receives from, lane after lane
  std::vector<Buffer> mirror_memory_;

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::vector<std::weak_ptr<NcclComm>> comms_;  // all of this process
  std::map<std::uint32_t, Bytes> group_ids_;    // that other processes have named
  std::thread aborter_;

  TaskThread thread_;  // does all transfers of edges; the last member: it uses the others

  std::vector<std::shared_ptr<NcclComm>> comms();
  std::shared_ptr<NcclComm> join(const NcclPlace& place);
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

  void send(const std::shared_ptr<Edges>& edges, Sender& sender, Delivery& delivery) override;
  void land(const std::shared_ptr<Edges>& edges, EdgeReceiver& receiver, const Delivery& delivery) override;
  void take(const std::shared_ptr<Edges>& edges, Sender& sender, const SlotCredit& credit) override;
  void group_message(int from, WireReader& in) override;
  void on_abort(const std::exception_ptr& cause) noexcept override;
  Bytes group_id(const std::vector<int>& ranks, std::uint32_t number);
  int another_process(const std::vector<int>& ranks) const;
};

// --- Set-up ---------------------------------------------------------------------------------------------------------------

std::size_t lanes_of(const EdgeReceiver& receiver) { return receiver.slots.empty() ? 0 : receiver.slots.front()->lanes.size(); }

std::vector<std::shared_ptr<NcclComm>> NcclTransport::comms() {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<NcclComm>> alive;
  for (const auto& weak : comms_) {
    if (auto comm = weak.lock()) alive.push_back(std::move(comm));
  }
  comms_.assign(alive.begin(), alive.end());
  return alive;
}

std::shared_ptr<NcclComm> NcclTransport::join(const NcclPlace& place) {
  auto comm = std::make_shared<NcclComm>(place);
  const std::lock_guard lock(mutex_);
  comms_.push_back(comm);
  return comm;
}

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
  Bytes& ids = ids_[receiver.edge] = {};
  WireWriter out;
  for (std::size_t lane = 0; lane < lanes_of(receiver); ++lane) out.bytes(make_nccl_id());
  ids = std::move(out).data();
  return ids;
}

// All begin to join before one waits: which of them the other process comes to first does not matter.
void NcclTransport::connect(Edges& edges) {
  for (const auto& [id, receiver] : edges.receivers) connect_receiver(receiver);
  for (auto& [id, sender] : edges.senders) connect_sender(sender);
  for (const auto& [id, ends] : ends_) {
    for (const LaneEnd& end : ends) end.comm->settle();
  }
  for (auto& [id, sender] : edges.senders) mirror(sender);
  rehearse(edges);
}

void NcclTransport::connect_receiver(const EdgeReceiver& receiver) {
  WireReader ids(ids_.at(receiver.edge));
  for (std::size_t i = 0; i < lanes_of(receiver); ++i) {
    LaneEnd end;
    end.device = &device_of(receiver.slots.front()->lanes[i]);
    const auto id = ids.bytes();
    end.comm = join({{id.begin(), id.end()}, consumer, 2, end.device->id().index, receiver.from, edge_blocks});
    end.stream = std::make_shared<CudaStream>(*end.device, "receives of edge " + std::to_string(receiver.edge));
    ends_[receiver.edge].push_back(std::move(end));
  }
}

void NcclTransport::connect_sender(Sender& sender) {
  WireReader ids(sender.offer.extra);
  for (Device* device : sender.edge.devices) {
    LaneEnd end;
    end.device = device;
    const auto id = ids.bytes();
    end.comm = join({{id.begin(), id.end()}, producer, 2, device->id().index, sender.edge.to, edge_blocks});
    end.stream = std::make_shared<CudaStream>(*device, "sends of edge " + std::to_string(sender.edge.edge));
    ends_[sender.edge.edge].push_back(std::move(end));
  }
  ids.end();
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

// A first transfer of each lane, which sets up its connection. All are enqueued by threads of their own, because each waits for
// its peer, which may come to another one first.
void NcclTransport::rehearse(const Edges& edges) {
  std::vector<std::thread> threads;
  const auto begin = [&](const LaneEnd& end, const Lane& lane, bool sends) {
    threads.emplace_back([&end, &lane, sends] {
      end.comm->transfer(*end.stream, [&] {
        const std::size_t bytes = std::min<std::size_t>(lane.capacity, 1024);
        sends ? end.comm->send(lane.tensor.data, bytes, consumer) : end.comm->receive(lane.tensor.data, bytes, producer);
      });
    });
  };
  for (const auto& [id, ends] : ends_) {
    const auto receiver = edges.receivers.find(id);
    const bool sends = receiver == edges.receivers.end();
    const Slot& slot = sends ? *edges.senders.at(id).mirrors.front() : *receiver->second.slots.front();
    for (std::size_t i = 0; i < ends.size(); ++i) begin(ends[i], slot.lanes[i], sends);
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& [id, ends] : ends_) {
    for (const LaneEnd& end : ends) end.stream->synchronize();
  }
}

void NcclTransport::disconnect(Edges&) noexcept {
  bool idle = thread_.drain(drain_limit);
  const auto limit = std::chrono::steady_clock::now() + drain_limit;
  for (const auto& [id, ends] : ends_) {
    for (const LaneEnd& end : ends) {
      while (idle && cudaStreamQuery(end.stream->native()) == cudaErrorNotReady) {
        idle = std::chrono::steady_clock::now() < limit;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  }
  if (!idle) NcclComm::abort(comms());
}

void NcclTransport::disconnected() noexcept {
  for (auto& [id, ends] : ends_) {
    for (LaneEnd& end : ends) end.stream.reset();  // waits for it
  }
  ends_.clear();
  mirror_memory_.clear();
  ids_.clear();
}

// --- In steps -------------------------------------------------------------------------------------------------------------

void NcclTransport::send(const std::shared_ptr<Edges>& edges, Sender& sender, Delivery& delivery) {
  thread_.add([this, edges, &sender, number = delivery.slot] {
    if (aborted()) return;
    const auto& ends = ends_.at(sender.edge.edge);
    const Slot& slot = *sender.mirrors[static_cast<std::size_t>(number)];
    for (std::size_t i = 0; i < ends.size(); ++i) {
      const Lane& lane = slot.lanes[i];
      ends[i].stream->wait(*lane.ready);
      ends[i].comm->transfer(*ends[i].stream, [&] { ends[i].comm->send(lane.tensor.data, lane.tensor.bytes(), consumer); });
      ends[i].stream->record(*lane.free);
    }
  });
}

void NcclTransport::land(const std::shared_ptr<Edges>& edges, EdgeReceiver& receiver, const Delivery& delivery) {
  thread_.add([this, edges, &receiver, number = delivery.slot, microbatch = delivery.microbatch] {
    if (aborted()) return;
    const auto& ends = ends_.at(receiver.edge);
    const Slot& slot = *receiver.slots[static_cast<std::size_t>(number)];
    for (std::size_t i = 0; i < ends.size(); ++i) {
      const Lane& lane = slot.lanes[i];
      if (lane.free) ends[i].stream->wait(*lane.free);
      ends[i].comm->transfer(*ends[i].stream, [&] { ends[i].comm->receive(lane.tensor.data, lane.tensor.bytes(), producer); });
      ends[i].stream->record(*lane.ready);
    }
    if (this->edges() == edges) receiver.arrived(number, microbatch);
  });
}

// Behind the sends that were given to the thread before: the mirror is free once its own is recorded.
void NcclTransport::take(const std::shared_ptr<Edges>& edges, Sender& sender, const SlotCredit& credit) {
  thread_.add([this, edges, &sender, slot = credit.slot] {
    if (!aborted() && this->edges() == edges) sender.edge.credit(slot);
  });
}

// --- Groups ---------------------------------------------------------------------------------------------------------------

std::map<int, std::shared_ptr<Group>> NcclTransport::group(const std::vector<int>& ranks, std::uint32_t number,
                                                           const std::map<int, Device*>& devices, GroupUse use) {
  refuse_tensor_group(mesh(), ranks);
  const Bytes id = group_id(ranks, number);
  std::map<int, std::shared_ptr<NcclComm>> own;
  for (std::size_t member = 0; member < ranks.size(); ++member) {
    const auto device = devices.find(ranks[member]);
    if (device == devices.end()) continue;
    NcclPlace place{id, static_cast<int>(member), static_cast<int>(ranks.size())};
    place.device = device->second->id().index;
    place.peer = another_process(ranks);
    place.most_blocks = nccl_group_blocks(use);
    own[ranks[member]] = join(place);
  }
  std::map<int, std::shared_ptr<Group>> handles;
  std::vector<std::thread> threads;
  std::vector<std::exception_ptr> failures(own.size());
  for (const auto& [rank, comm] : own) comm->settle();
  for (const auto& [rank, comm] : own) {
    Device& device = *devices.at(rank);
    handles[rank] = make_nccl_group(comm, device, use);
    // A first sum, which connects all ranks.
    threads.emplace_back([&device, group = handles[rank].get(), &failure = failures[threads.size()]] {
      try {
        const Tensor numbers{nullptr, {4096}, DType::f32};
        const Buffer memory = device.allocate(numbers.bytes(), "a first sum");
        const auto stream = device.make_stream("a first sum");
        group->all_reduce(*stream, {memory.data(), numbers.shape, numbers.dtype}, Reduction::sum);
        stream->synchronize();
      } catch (...) {
        failure = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  return handles;
}

int NcclTransport::another_process(const std::vector<int>& ranks) const {
  for (const int rank : ranks) {
    if (mesh().place(rank).process != control().process()) return mesh().place(rank).process;
  }
  return control().process();
}

// Named by the process of the first rank.
Bytes NcclTransport::group_id(const std::vector<int>& ranks, std::uint32_t number) {
  const int namer = mesh().place(ranks.front()).process;
  if (namer == control().process()) {
    const Bytes id = make_nccl_id();
    std::set<int> others;
    for (const int rank : ranks) others.insert(mesh().place(rank).process);
    others.erase(namer);
    for (const int process : others) {
      WireWriter message = begin_group_message();
      message.number(number);
      message.bytes(id);
      send_to(process, std::move(message));
    }
    return id;
  }
  std::unique_lock lock(mutex_);
  const bool in_time = changed_.wait_for(lock, id_limit, [&] { return aborted() || group_ids_.count(number) > 0; });
  if (aborted()) std::rethrow_exception(cause());
  if (!in_time) throw Error(ErrorKind::peer_lost, "a group of GPUs waits for " + to_string(control().info(namer)));
  const Bytes id = std::move(group_ids_[number]);
  group_ids_.erase(number);
  return id;
}

void NcclTransport::group_message(int, WireReader& in) {
  const auto number = in.number<std::uint32_t>();
  const auto id = in.bytes();
  in.end();
  const std::lock_guard lock(mutex_);
  group_ids_[number] = {id.begin(), id.end()};
  changed_.notify_all();
}

// --- Failures -------------------------------------------------------------------------------------------------------------

void NcclTransport::watch() {
  if (aborted()) return;
  for (const auto& comm : comms()) {
    const std::string why = comm->failure();
    if (why.empty()) continue;
    return lose(comm->peer(), "NCCL: " + why);
  }
}

// On a thread of its own, because the one that does transfers may be stuck in one.
void NcclTransport::on_abort(const std::exception_ptr&) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
    aborter_ = std::thread([this] { NcclComm::abort(comms()); });
  } catch (...) {  // no thread to be had
    NcclComm::abort(comms());
  }
}

}  // namespace

bool has_nccl() noexcept { return true; }

std::unique_ptr<Transport> make_nccl_transport(ControlPlane& control, const Mesh& mesh) {
  return std::make_unique<NcclTransport>(control, mesh);
}

}  // namespace pipetrain
