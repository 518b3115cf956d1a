// Edges between GPUs of different processes: over CUDA IPC also for two processes that share one GPU, over NCCL, which
// does not allow that, on two.
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "catch.hpp"
#include "comm/cuda/gpu_process.hpp"
#include "comm/link.hpp"

namespace pipetrain::test {
namespace {

using Values = std::vector<std::uint32_t>;

Values random_values(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Values values(count);
  for (auto& value : values) value = static_cast<std::uint32_t>(random());
  return values;
}

constexpr int microbatches = 60;

// Both processes have equal plans.
struct EdgePlan {
  EdgeId id;
  int from, to, slots;
  std::int64_t most;  // elements of a lane

  explicit EdgePlan(EdgeId number) : id(number), from(static_cast<int>(number % 2)), to(1 - from) {
    std::mt19937 random(number + 1);
    slots = 1 + static_cast<int>(random() % 6);
    most = number % 3 == 0 ? 256 : 1 + static_cast<std::int64_t>(random() % 300000);
  }
  Shape shape(int microbatch) const {
    std::mt19937 random(1000 * id + static_cast<unsigned>(microbatch));
    return {1 + static_cast<std::int64_t>(random()) % most};
  }
  Values content(int microbatch) const {
    return random_values(static_cast<std::size_t>(shape(microbatch).elements()),
                         77777 * id + static_cast<unsigned>(microbatch));
  }
};

// Items that the transport's threads pass to the test's thread.
class Inbox {
 public:
  struct Item {
    bool arrived;
    EdgeId edge;
    int slot, microbatch;
  };
  void add(const Item& item) {
    const std::lock_guard lock(mutex_);
    items_.push_back(item);
    changed_.notify_all();
  }
  // Throws if nothing arrives.
  Item take() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(60), [&] { return !items_.empty(); })) {
      throw std::runtime_error("nothing comes");
    }
    const Item item = items_.front();
    items_.pop_front();
    return item;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
};

// One process: fills and reads slots as stages do, without waiting for its GPU.
class EdgeRunner {
 public:
  explicit EdgeRunner(GpuProcess& self)
      : self_(self),
        mesh_({.pp = 2}, deal_ranks(2, 2)),
        device_(make_cuda_device(self.gpu(0))),
        compute_(device_->make_stream("compute")),
        reading_(device_->make_stream("reading")),
        transport_(make_transport(self.kind(), self.control(), mesh_)) {
    const int here = self.process();
    kind_ = transport_->link(here, 1 - here);
    link_ = make_link(kind_, {device_.get(), 4 * 300001, "a test"});
  }
  ~EdgeRunner() {
    transport_->close_edges();
    receivers_.clear();
  }

  void open(EdgeId first, int count) {
    std::vector<EdgeReceiver> receivers;
    std::vector<EdgeSender> senders;
    plans_.clear();
    receivers_.clear();
    for (EdgeId id = first; id < first + static_cast<EdgeId>(count); ++id) {
      const EdgePlan plan(id);
      plans_.emplace(id, plan);
      if (plan.to == self_.process()) receivers.push_back(receiver(plan));
      if (plan.from == self_.process()) {
        const auto credit = [this, id](int slot) { inbox_.add({false, id, slot, 0}); };
        senders.push_back({id, plan.to, {device_.get()}, {self_.process()}, credit});
      }
    }
    transport_->open_edges(std::move(receivers), std::move(senders));
  }

  // Runs all microbatches of all edges; returns how many arrived with wrong contents.
  int run() {
    int left = 0;
    for (const auto& [id, plan] : plans_) {
      left += microbatches;
      if (plan.to != self_.process()) continue;
      for (int slot = 0; slot < plan.slots; ++slot) transport_->give_credit(id, slot);
    }
    std::map<EdgeId, int> sent;
    while (left > 0) {
      const Inbox::Item item = inbox_.take();
      if (plans_.count(item.edge) == 0) continue;  // a last credit of closed edges
      const EdgePlan& plan = plans_.at(item.edge);
      if (item.arrived) {
        read(plan, item.slot, item.microbatch);
        --left;
      } else if (sent[item.edge] < microbatches) {
        fill(plan, item.slot, sent[item.edge]++);
        --left;
      }
    }
    compute_->synchronize();
    reading_->synchronize();
    int wrong = 0;
    for (const auto& read : reads_) {
      const Values wanted = plans_.at(read.edge).content(read.microbatch);
      wrong += std::memcmp(read.memory.data(), wanted.data(), 4 * wanted.size()) != 0;
    }
    reads_.clear();
    written_.clear();
    return wrong;
  }

  void close() { transport_->close_edges(); }
  std::string description() const { return transport_->description(); }

 private:
  struct Read {
    EdgeId edge;
    int microbatch;
    Buffer memory;
  };

  GpuProcess& self_;
  Mesh mesh_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> compute_, reading_;
  std::unique_ptr<Transport> transport_;
  LinkKind kind_{};
  std::unique_ptr<Link> link_;
  Inbox inbox_;
  std::map<EdgeId, EdgePlan> plans_;
  std::map<EdgeId, std::vector<SlotHandle>> receivers_;
  std::vector<Buffer> slots_, written_;
  std::vector<Read> reads_;
  std::mt19937 random_{5};

  EdgeReceiver receiver(const EdgePlan& plan) {
    EdgeReceiver edge{plan.id, plan.from, {}, nullptr};
    for (int i = 0; i < plan.slots; ++i) {
      auto slot = std::make_shared<Slot>();
      Lane lane;
      slots_.push_back(transport_->slot_memory(*device_, 4 * static_cast<std::size_t>(plan.most), "a slot"));
      lane.tensor = {slots_.back().data(), {plan.most}, DType::f32};
      lane.capacity = slots_.back().bytes();
      lane.ready = device_->make_event();
      lane.free = device_->make_event();
      lane.rank = self_.process();
      slot->lanes.push_back(lane);
      edge.slots.push_back(slot);
    }
    edge.arrived = [this, id = plan.id](int slot, int microbatch) { inbox_.add({true, id, slot, microbatch}); };
    receivers_[plan.id] = edge.slots;
    return edge;
  }

  // Delays a stream now and then, so that messages arrive before the data that they announce.
  void dawdle(Stream& stream) {
    if (random_() % 8 == 0) stream.host_callback([] { std::this_thread::sleep_for(std::chrono::milliseconds(3)); });
  }

  void fill(const EdgePlan& plan, int slot, int microbatch) {
    Lane& lane = transport_->mirrors(plan.id).at(static_cast<std::size_t>(slot))->lanes[0];
    lane.tensor.shape = plan.shape(microbatch);
    const Values content = plan.content(microbatch);
    written_.push_back(device_->allocate_host(4 * content.size(), "a content"));
    std::memcpy(written_.back().data(), content.data(), 4 * content.size());
    const Tensor place = link_->begin(*compute_, lane);
    dawdle(*compute_);
    compute_->copy(place.data, written_.back().data(), place.bytes());
    link_->send(*compute_, lane);
    transport_->deliver(plan.id, slot, microbatch);
  }

  void read(const EdgePlan& plan, int slot, int microbatch) {
    const Slot& here = *receivers_.at(plan.id).at(static_cast<std::size_t>(slot));
    CHECK(here.lanes[0].tensor.shape == plan.shape(microbatch));
    reads_.push_back({plan.id, microbatch, device_->allocate_host(here.lanes[0].tensor.bytes(), "what came")});
    wait_until_ready(*reading_, here, 0);
    dawdle(*reading_);
    reading_->copy(reads_.back().memory.data(), here.lanes[0].tensor.data, here.lanes[0].tensor.bytes());
    mark_free(*reading_, here, 0);
    transport_->give_credit(plan.id, slot);
  }
};

}  // namespace

// The work of one process: hidden, started by the cases below.
TEST_CASE("one process of edges between GPUs", "[.][gpu-process]") {
  const auto self = GpuProcess::here();
  if (!self) return;
  {
    EdgeRunner runner(*self);
    for (const EdgeId first : {0U, 100U}) {  // closed and opened anew
      runner.open(first, 8);
      if (self->kind() == TransportKind::nccl_send) CHECK(runner.description() == "nccl, sending");
      if (self->kind() == TransportKind::nccl_put) CHECK(runner.description() == "nccl, putting");
      CHECK(runner.run() == 0);
      runner.close();
    }
  }
  self->control().leave();
}

TEST_CASE("GPUs of two processes fill each other's slots", "[gpu]") {
  for (const TransportKind kind :
       {TransportKind::ipc, TransportKind::nccl, TransportKind::nccl_send, TransportKind::nccl_put}) {
    for (const int gpus : {2, 1}) {
      if ((kind != TransportKind::ipc && gpus == 1) || !have(kind, gpus)) continue;
      INFO(to_string(kind) << ", " << gpus << " GPUs");
      CHECK(run_gpu_processes({"one process of edges between GPUs", kind, 2, gpus}) == std::vector<int>{0, 0});
    }
  }
}

TEST_CASE("GPUs of two processes that each see their own alone reach each other", "[gpu]") {
  if (!have(TransportKind::ipc, 2)) return;
  CHECK(run_gpu_processes({"one process of edges between GPUs", TransportKind::ipc, 2, 2, true}) == std::vector<int>{0, 0});
}

}  // namespace pipetrain::test
