#include "comm/cuda/ipc_transport.hpp"

#include <chrono>
#include <exception>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "comm/controlled/controlled_transport.hpp"
#include "comm/cuda/cuda_ipc_memory.hpp"
#include "comm/cuda/cuda_shared_event.hpp"
#include "comm/cuda/ipc_group.hpp"
#include "core/cuda/cuda_stream.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

// The time that running copies between GPUs may take to end.
constexpr std::chrono::seconds copies_limit{2};

int device_of(const Lane& lane) {
  cudaPointerAttributes attributes{};
  const cudaError_t status = cudaPointerGetAttributes(&attributes, lane.tensor.data);
  if (status != cudaSuccess || attributes.type != cudaMemoryTypeDevice) {
    cudaGetLastError();
    throw Error(ErrorKind::internal, "a slot of an edge between GPUs is in no GPU's memory");
  }
  return attributes.device;
}

std::shared_ptr<SharedEvent> shared_event(const Lane& lane, std::shared_ptr<Event> Lane::*event) {
  return std::static_pointer_cast<SharedEvent>(lane.*event);
}
SharedEvent& shared(const Lane& lane, std::shared_ptr<Event> Lane::*event) { return static_cast<SharedEvent&>(*(lane.*event)); }

// A lane has two events in shared memory that the receiver made: `ready` and `free`.
class IpcTransport final : public ControlledTransport {
 public:
  IpcTransport(ControlPlane& control, const Mesh& mesh)
      : ControlledTransport(control, mesh), groups_(mesh, control.process(), [this](int process, const Bytes& message) {
          WireWriter out = begin_group_message();
          out.bytes(message);
          send_to(process, std::move(out));
        }) {
    listen();
  }
  ~IpcTransport() override { stop_listening(); }

  std::map<int, std::shared_ptr<Group>> group(const std::vector<int>& ranks, std::uint32_t number,
                                              const std::map<int, Device*>& devices, GroupUse) override {
    return groups_.make(ranks, number, devices);
  }
  std::string description() const override { return "ipc"; }
  LinkKind link(int, int) const override { return LinkKind::peer_copy; }

 private:
  ImportedMemory imported_;
  IpcGroups groups_;
  std::shared_ptr<SharedHostMemory> events_;  // for the lanes in which this process receives
  std::size_t next_event_ = 0;                // its offset there
  std::mutex waiting_mutex_;
  std::vector<std::shared_ptr<SharedEvent>> waiting_;  // for other processes
  std::unique_ptr<EventReleaser> releaser_;

  // --- Set-up -------------------------------------------------------------------------------------------------------------

  Bytes introduce(const Edges& edges) override {
    std::size_t lanes = 0;
    const Lane* any = nullptr;
    for (const auto& [id, receiver] : edges.receivers) {
      for (const SlotHandle& slot : receiver.slots) {
        lanes += slot->lanes.size();
        if (!slot->lanes.empty()) any = &slot->lanes.front();
      }
    }
    const std::size_t bytes = 2 * lanes * SharedEvent::bytes;
    next_event_ = 0;
    events_ = any ? SharedHostMemory::create(bytes, device_of(*any)) : nullptr;
    WireWriter out;
    out.text(events_ ? events_->name() : "");
    out.number(static_cast<std::uint64_t>(bytes));
    return std::move(out).data();
  }

  Bytes offer(const EdgeReceiver& receiver) override {
    WireWriter out;
    out.number(static_cast<std::uint64_t>(next_event_));
    for (const SlotHandle& slot : receiver.slots) {
      for (Lane& lane : slot->lanes) {
        write(out, export_memory(lane.tensor.data, device_of(lane)));
        for (auto event : {&Lane::ready, &Lane::free}) {
          lane.*event = std::make_shared<SharedEvent>(events_, next_event_);
          next_event_ += SharedEvent::bytes;
        }
      }
    }
    return std::move(out).data();
  }

  void connect(Edges& edges) override {
    std::map<int, std::shared_ptr<SharedHostMemory>> events;  // by process
    for (auto& [id, sender] : edges.senders) {
      auto& of_process = events[sender.edge.to];
      if (!of_process) of_process = open_events(edges, sender);
      mirror(sender, of_process);
    }
    const std::lock_guard lock(waiting_mutex_);
    releaser_.reset();
    for (const auto& [id, receiver] : edges.receivers) {
      for (const SlotHandle& slot : receiver.slots) {
        for (const Lane& lane : slot->lanes) waiting_.push_back(shared_event(lane, &Lane::ready));
      }
    }
    for (const auto& [id, sender] : edges.senders) {
      for (const SlotHandle& slot : sender.mirrors) {
        for (const Lane& lane : slot->lanes) waiting_.push_back(shared_event(lane, &Lane::free));
      }
    }
  }

  std::shared_ptr<SharedHostMemory> open_events(const Edges& edges, const Sender& sender) const {
    WireReader in(edges.introductions[static_cast<std::size_t>(sender.edge.to)]);
    const std::string name = in.text();
    const auto bytes = in.number<std::uint64_t>();
    return SharedHostMemory::open(name, bytes, sender.edge.devices.front()->id().index);
  }

  // Mirrors the receiver's memory, at the address for the device of the lane's sender.
  void mirror(Sender& sender, const std::shared_ptr<SharedHostMemory>& events) {
    WireReader in(sender.offer.extra);
    auto offset = static_cast<std::size_t>(in.number<std::uint64_t>());
    const std::string owner = to_string(control().info(sender.edge.to));
    for (const auto& lanes : sender.offer.slots) {
      auto slot = std::make_shared<Slot>();
      for (std::size_t i = 0; i < lanes.size(); ++i, offset += 2 * SharedEvent::bytes) {
        if (offset > events->bytes() || events->bytes() - offset < 2 * SharedEvent::bytes)
          WireReader::refuse("more lanes than it shares events for");
        Lane lane;
        const ExportedMemory memory = read_exported_memory(in);
        lane.tensor = {imported_.open(memory, sender.edge.devices[i]->id().index, owner), lanes[i].shape, lanes[i].dtype};
        lane.capacity = lanes[i].capacity;
        lane.ready = std::make_shared<SharedEvent>(events, offset);
        lane.free = std::make_shared<SharedEvent>(events, offset + SharedEvent::bytes);
        lane.rank = lanes[i].rank;
        slot->lanes.push_back(lane);
      }
      sender.mirrors.push_back(slot);
    }
    in.end();
  }

  void connected(Edges&) override {
    if (events_) events_->unlink();
  }

  void disconnect(Edges& edges) noexcept override {
    const auto limit = std::chrono::steady_clock::now() + copies_limit;
    for (const auto& [id, sender] : edges.senders) {
      for (const SlotHandle& slot : sender.mirrors) {
        for (const Lane& lane : slot->lanes) {
          while (!shared(lane, &Lane::ready).query() && std::chrono::steady_clock::now() < limit) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
        }
      }
    }
    imported_.close();
    const std::lock_guard lock(waiting_mutex_);
    waiting_.clear();  // a releaser continues: streams may still wait
    events_.reset();
  }

  // --- In steps -----------------------------------------------------------------------------------------------------------

  void send(const std::shared_ptr<Edges>&, Sender& sender, Delivery delivery) override {
    const Slot& slot = *sender.mirrors[static_cast<std::size_t>(delivery.slot)];
    for (std::size_t i = 0; i < slot.lanes.size(); ++i)
      delivery.lanes[i].record = shared(slot.lanes[i], &Lane::ready).recorded();
    announce(sender, delivery);
  }

  void land(const std::shared_ptr<Edges>&, EdgeReceiver& receiver, const Delivery& delivery) override {
    const Slot& slot = *receiver.slots[static_cast<std::size_t>(delivery.slot)];
    for (std::size_t i = 0; i < slot.lanes.size(); ++i) shared(slot.lanes[i], &Lane::ready).expect(delivery.lanes[i].record);
    receiver.arrived(delivery.slot, delivery.microbatch);
  }

  void give(const std::shared_ptr<Edges>&, EdgeReceiver& receiver, SlotCredit credit) override {
    for (const Lane& lane : receiver.slots.at(static_cast<std::size_t>(credit.slot))->lanes) {
      credit.records.push_back(shared(lane, &Lane::free).recorded());
    }
    announce(receiver, credit);
  }

  void take(const std::shared_ptr<Edges>&, Sender& sender, const SlotCredit& credit) override {
    const Slot& slot = *sender.mirrors[static_cast<std::size_t>(credit.slot)];
    if (credit.records.size() != slot.lanes.size()) WireReader::refuse("another number of lanes than the slot");
    for (std::size_t i = 0; i < slot.lanes.size(); ++i) shared(slot.lanes[i], &Lane::free).expect(credit.records[i]);
    sender.edge.credit(credit.slot);
  }

  void group_message(int from, WireReader& in) override {
    WireReader message(in.bytes());
    in.end();
    groups_.handle(from, message);
  }

  void on_abort(const std::exception_ptr& cause) noexcept override {
    groups_.abort(cause);
    const std::lock_guard lock(waiting_mutex_);
    releaser_ = std::make_unique<EventReleaser>(waiting_);
  }
};

}  // namespace

bool has_ipc() noexcept { return true; }

std::unique_ptr<Transport> make_ipc_transport(ControlPlane& control, const Mesh& mesh) {
  return std::make_unique<IpcTransport>(control, mesh);
}

}  // namespace pipetrain
