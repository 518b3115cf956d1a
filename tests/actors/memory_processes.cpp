#include "memory_processes.hpp"
#include "core/device.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "actors/ranks/worker.hpp"
#include "comm/inproc/inprocess_group.hpp"
#include "core/error.hpp"

namespace pipetrain::test {

// One process, with its control plane's thread.
struct MemoryHub::Member {
  explicit Member(int number) : worker("control " + std::to_string(number)) {
    info.process = number;
    info.host = "host" + std::to_string(number);
    info.label = "part " + std::to_string(number);
  }
  ProcessInfo info;
  std::map<Channel, ControlPlane::OnMessage> handlers;
  std::map<Channel, std::vector<std::pair<int, Bytes>>> kept;
  ControlPlane::OnLost on_lost;
  std::vector<std::pair<int, std::string>> kept_losses;
  std::map<int, std::string> gone;  // the processes that this one knows to be gone, and why; guarded by the hub's mutex
  std::recursive_mutex mutex;       // held while a handler runs
  Worker worker;
};

class MemoryControl final : public ControlPlane {
 public:
  MemoryControl(std::shared_ptr<MemoryHub> hub, int process) : hub_(std::move(hub)), process_(process) {}
  ~MemoryControl() override { leave(); }

  int process() const override { return process_; }
  int processes() const override { return static_cast<int>(hub_->members_.size()); }
  const ProcessInfo& info(int process) const override { return hub_->members_.at(static_cast<std::size_t>(process))->info; }
  bool is_gone(int process) const override {
    const std::lock_guard lock(hub_->mutex_);
    return hub_->members_.at(static_cast<std::size_t>(process_))->gone.count(process) > 0;
  }

  void on_message(Channel channel, OnMessage handler) override {
    auto& own = member();
    const std::lock_guard lock(own.mutex);
    own.handlers[channel] = std::move(handler);
    if (!own.handlers[channel]) return;
    for (auto& [from, bytes] : std::exchange(own.kept[channel], {})) own.handlers[channel](from, bytes);
  }
  void on_lost(OnLost handler) override {
    auto& own = member();
    const std::lock_guard lock(own.mutex);
    own.on_lost = std::move(handler);
    if (!own.on_lost) return;
    for (auto& [process, why] : std::exchange(own.kept_losses, {})) own.on_lost(process, why);
  }
  void send(int process, Channel channel, Bytes message) override {
    if (message.size() > max_message_bytes) throw Error(ErrorKind::internal, "a message above the cap");
    {
      const std::lock_guard lock(hub_->mutex_);
      if (hub_->gone_.count(process) + hub_->gone_.count(process_) > 0) return;
      if (channel == Channel::engine) hub_->recorded_.push_back(message);
    }
    hub_->forge(process_, process, channel, std::move(message));
  }
  std::vector<Bytes> exchange(const std::string& key, Bytes mine) override {
    std::unique_lock lock(hub_->mutex_);
    auto& meeting = hub_->meetings_[key];
    meeting.given[process_] = std::move(mine);
    hub_->changed_.notify_all();
    const auto& gone = member().gone;
    hub_->changed_.wait(lock, [&] { return meeting.given.size() == hub_->members_.size() || !gone.empty(); });
    if (meeting.given.size() < hub_->members_.size()) {
      throw Error(ErrorKind::peer_lost, to_string(info(gone.begin()->first)) + ": " + gone.begin()->second);
    }
    std::vector<Bytes> all;
    for (auto& [process, bytes] : meeting.given) all.push_back(bytes);
    if (++meeting.taken == processes()) hub_->meetings_.erase(key);
    return all;
  }
  void leave() override {
    {
      const std::lock_guard lock(hub_->mutex_);
      if (!hub_->gone_.insert(process_).second) return;
    }
    for (int other = 0; other < processes(); ++other) hub_->tell_gone(other, process_, "it ended");
  }

 private:
  MemoryHub::Member& member() const { return *hub_->members_[static_cast<std::size_t>(process_)]; }

  std::shared_ptr<MemoryHub> hub_;
  int process_;
};

// Mirrors are memory of the sender; a thread of each process waits for the events that fill them, and copies.
class MemoryTransport final : public Transport {
 public:
  MemoryTransport(std::shared_ptr<MemoryHub> hub, ControlPlane& control)
      : hub_(std::move(hub)), control_(control), worker_(std::make_unique<Worker>("transport")) {}
  ~MemoryTransport() override { close_edges(); }

  void open_edges(std::vector<EdgeReceiver> receivers, std::vector<EdgeSender> senders) override {
    {
      const std::lock_guard lock(hub_->mutex_);
      for (auto& one : receivers) {
        receiving_.push_back(one.edge);
        hub_->receivers_[one.edge] = std::move(one);
      }
    }
    control_.exchange("edges", {});
    for (auto& one : senders) make_mirrors(one);
    {
      const std::lock_guard lock(hub_->mutex_);
      for (auto& one : senders) hub_->senders_[one.edge] = std::move(one);
    }
    control_.exchange("edges are open", {});
  }
  // A thread that copies into this process's slots holds the lock of its own copy.
  void close_edges() noexcept override {
    worker_.reset();
    {
      const std::lock_guard lock(hub_->mutex_);
      for (const auto& [edge, mirrors] : mirrors_) hub_->senders_.erase(edge);
      for (const EdgeId edge : receiving_) hub_->receivers_.erase(edge);
    }
    const std::lock_guard lock(hub_->copying_);
  }
  const std::vector<SlotHandle>& mirrors(EdgeId edge) const override { return mirrors_.at(edge); }
  std::map<int, std::shared_ptr<Group>> group(const std::vector<int>& ranks, std::uint32_t number,
                                              const std::map<int, Device*>& devices, GroupUse) override {
    const std::lock_guard lock(hub_->mutex_);
    auto& members = hub_->groups_[number];
    if (members.empty()) {
      for (auto& one : make_inprocess_groups(static_cast<int>(ranks.size()))) members.push_back(std::move(one));
    }
    std::map<int, std::shared_ptr<Group>> own;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (devices.count(ranks[i]) > 0) own[ranks[i]] = members[i];
    }
    return own;
  }
  std::string description() const override { return "memory of the test"; }
  LinkKind link(int, int) const override { return LinkKind::same_memory; }

  void deliver(EdgeId edge, int slot, int microbatch) override {
    worker_->post([this, edge, slot, microbatch] {
      const Slot& mirror = *mirrors_.at(edge)[static_cast<std::size_t>(slot)];
      for (const Lane& lane : mirror.lanes) lane.ready->synchronize();
      EdgeReceiver receiver;
      const std::shared_lock copying(hub_->copying_);
      {
        const std::lock_guard lock(hub_->mutex_);
        const auto found = hub_->receivers_.find(edge);
        if (found == hub_->receivers_.end() || aborted_) return;
        receiver = found->second;
      }
      copy(mirror, *receiver.slots[static_cast<std::size_t>(slot)]);
      receiver.arrived(slot, microbatch);
    });
  }
  void give_credit(EdgeId edge, int slot) override {
    const std::lock_guard lock(hub_->mutex_);
    if (const auto found = hub_->senders_.find(edge); found != hub_->senders_.end()) found->second.credit(slot);
  }
  void on_lost(ControlPlane::OnLost) override {}
  void abort(std::exception_ptr) noexcept override { aborted_ = true; }

 private:
  void make_mirrors(const EdgeSender& sender) {
    std::vector<SlotHandle> slots;
    {
      const std::lock_guard lock(hub_->mutex_);
      slots = hub_->receivers_.at(sender.edge).slots;
    }
    for (const auto& theirs : slots) {
      auto mirror = std::make_shared<Slot>();
      for (std::size_t i = 0; i < theirs->lanes.size(); ++i) {
        Device& device = *sender.devices.at(i);
        memory_.push_back(device.allocate(theirs->lanes[i].capacity, "mirror"));
        Lane lane;
        lane.tensor = theirs->lanes[i].tensor;
        lane.tensor.data = memory_.back().data();
        lane.capacity = theirs->lanes[i].capacity;
        lane.ready = device.make_event();
        mirror->lanes.push_back(std::move(lane));
      }
      mirrors_[sender.edge].push_back(std::move(mirror));
    }
  }
  static void copy(const Slot& from, Slot& to) {
    for (std::size_t i = 0; i < from.lanes.size(); ++i) {
      const Lane& source = from.lanes[i];
      Lane& target = to.lanes[i];
      if (target.free) target.free->synchronize();
      void* const place = target.tensor.data;
      target.tensor = source.tensor;
      target.tensor.data = place;
      std::memcpy(place, source.tensor.data, source.tensor.bytes());
    }
  }

  std::shared_ptr<MemoryHub> hub_;
  ControlPlane& control_;
  std::map<EdgeId, std::vector<SlotHandle>> mirrors_;
  std::vector<EdgeId> receiving_;
  std::vector<Buffer> memory_;
  std::atomic<bool> aborted_{false};
  std::unique_ptr<Worker> worker_;
};

MemoryHub::MemoryHub(int processes) {
  for (int process = 0; process < processes; ++process) members_.push_back(std::make_unique<Member>(process));
}
MemoryHub::~MemoryHub() = default;

std::shared_ptr<MemoryHub> MemoryHub::make(int processes) { return std::shared_ptr<MemoryHub>(new MemoryHub(processes)); }

std::shared_ptr<ControlPlane> MemoryHub::control(int process) {
  return std::make_shared<MemoryControl>(shared_from_this(), process);
}
std::unique_ptr<Transport> MemoryHub::transport(ControlPlane& control) {
  return std::make_unique<MemoryTransport>(shared_from_this(), control);
}

void MemoryHub::post(int process, std::function<void(Member&)> job) {
  Member& member = *members_[static_cast<std::size_t>(process)];
  member.worker.post([&member, job = std::move(job)] {
    const std::lock_guard lock(member.mutex);
    job(member);
  });
}

void MemoryHub::forge(int from, int to, Channel channel, Bytes message) {
  post(to, [from, channel, message = std::move(message)](Member& member) {
    const auto handler = member.handlers.find(channel);
    if (handler != member.handlers.end() && handler->second) return handler->second(from, message);
    member.kept[channel].emplace_back(from, message);
  });
}

void MemoryHub::kill(int process, const std::string& why) {
  std::vector<int> others;
  {
    const std::lock_guard lock(mutex_);
    gone_.insert(process);
    for (int other = 0; other < static_cast<int>(members_.size()); ++other) {
      if (gone_.count(other) == 0) others.push_back(other);
    }
  }
  const auto tell = [&](int told, int lost) {
    tell_gone(told, lost, why);
    post(told, [lost, why](Member& member) {
      if (member.on_lost) return member.on_lost(lost, why);
      member.kept_losses.emplace_back(lost, why);
    });
  };
  for (const int other : others) {
    tell(other, process);
    if (process == 0 || other == 0) tell(process, other);
  }
}

// Delivered after all that the gone process sent before.
void MemoryHub::tell_gone(int told, int gone, const std::string& why) {
  post(told, [this, gone, why](Member& member) {
    const std::lock_guard lock(mutex_);
    member.gone.emplace(gone, why);
    changed_.notify_all();
  });
}

std::vector<Bytes> MemoryHub::recorded() const {
  const std::lock_guard lock(mutex_);
  return recorded_;
}

}  // namespace pipetrain::test
