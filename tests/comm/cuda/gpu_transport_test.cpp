// Edges and groups between GPUs of different processes: over CUDA IPC also where two processes share one GPU, over NCCL, which
// does not allow that, on two.
#include <sys/mman.h>

#include <signal.h>
#include <algorithm>
#include <cstring>
#include <deque>
#include <random>
#include <thread>

#include "catch.hpp"
#include "comm/control_fixture.hpp"
#include "comm/cuda/gpu_process.hpp"
#include "comm/cuda_group.hpp"
#include "comm/link.hpp"
#include "comm/nccl_transport.hpp"
#include "core/error.hpp"
#include "skip.hpp"

namespace pipetrain::test {
namespace {

using Values = std::vector<std::uint32_t>;

Values random_values(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Values values(count);
  for (auto& value : values) value = static_cast<std::uint32_t>(random());
  return values;
}

// --- Edges ----------------------------------------------------------------------------------------------------------------

constexpr int microbatches = 60;

// The same in both processes.
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

// What the threads of the transport tell the thread of the test.
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
  // Throws when nothing comes.
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

  // All microbatches of all edges; returns how many came with another content.
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
      if (plans_.count(item.edge) == 0) continue;  // a last credit of edges that are closed
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
      slots_.push_back(device_->allocate(4 * static_cast<std::size_t>(plan.most), "a slot"));
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

  // Now and then a stream is late, so that messages are ahead of what they speak of.
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

// --- Groups ---------------------------------------------------------------------------------------------------------------

struct Piece {
  std::int64_t rows, cols;
  DType dtype;
};
const std::vector<Piece> pieces{{1000, 33, DType::f32}, {3, 7, DType::f32}, {40000, 64, DType::f32}, {513, 16, DType::bf16},
                                {77, 10, DType::f64},   {1, 1, DType::f32}, {9, 3, DType::bf16}};

std::size_t piece_bytes(const Piece& piece) {
  return align_up(static_cast<std::size_t>(piece.rows * piece.cols) * size_of(piece.dtype));
}

// Numbers whose sums depend on the order, of a rank and a piece.
std::vector<char> input_of(const Piece& piece, int rank, std::size_t number) {
  std::mt19937 random(static_cast<unsigned>(rank) * 31 + static_cast<unsigned>(number));
  std::normal_distribution<float> normal(0, 1);
  const auto count = static_cast<std::size_t>(piece.rows * piece.cols);
  std::vector<char> bytes(count * size_of(piece.dtype));
  for (std::size_t i = 0; i < count; ++i) {
    const float value = normal(random);
    const double wide = value / 3.0;
    if (piece.dtype == DType::f64) {
      std::memcpy(bytes.data() + 8 * i, &wide, 8);
    } else {
      const std::size_t size = size_of(piece.dtype);  // bf16 is the upper half
      std::memcpy(bytes.data() + size * i, reinterpret_cast<const char*>(&value) + 4 - size, size);
    }
  }
  return bytes;
}

// One rank's end of a group, its inputs in one piece of memory, and all that its collectives leave.
class GroupRank {
 public:
  // Everything is allocated, and locked, before any kernel may wait for its peers.
  GroupRank(Device& device, int rank, int size) : rank_(rank), size_(size), stream_(device.make_stream("sums")) {
    std::size_t bytes = 0;
    for (std::size_t number = 0; number < pieces.size(); ++number) {
      bytes += 3 * piece_bytes(pieces[number]);
      const std::vector<char> input = input_of(pieces[number], rank, number);
      inputs_.push_back(device.allocate_host(input.size(), "a test's input"));
      std::memcpy(inputs_.back().data(), input.data(), input.size());
    }
    memory_ = device.allocate(bytes, "a test's tensors");
    shards_ = device.allocate(bytes, "a test's shards");
  }

  // The memory that others reach.
  Tensor arena() const { return {memory_.data(), {static_cast<std::int64_t>(memory_.bytes() / 4)}, DType::f32}; }
  Stream& stream() { return *stream_; }

  // Enqueues every collective on every piece; `rounds` times on the same memory.
  void enqueue(Group& group, int rounds) {
    std::size_t at = 0, shard_at = 0;
    const auto place = [](const Buffer& memory, std::size_t& offset, const Shape& shape, DType dtype) {
      const Tensor tensor{static_cast<char*>(memory.data()) + offset, shape, dtype};
      offset += align_up(tensor.bytes());
      return tensor;
    };
    for (std::size_t number = 0; number < pieces.size(); ++number) {
      const Piece& piece = pieces[number];
      const RowSplit split(piece.rows, size_);
      const Shape whole{piece.rows, piece.cols}, part{split.count(rank_), piece.cols};
      const Tensor sums = place(memory_, at, whole, piece.dtype), maxima = place(memory_, at, whole, piece.dtype),
                   full = place(memory_, at, whole, piece.dtype);
      const Tensor shard = place(shards_, shard_at, part, piece.dtype), gathered = place(shards_, shard_at, whole, piece.dtype);
      for (int round = 0; round < rounds; ++round) {
        for (const Tensor& tensor : {sums, maxima, full}) stream_->copy(tensor.data, inputs_[number].data(), tensor.bytes());
        group.all_reduce(*stream_, sums, Reduction::sum);
        group.all_reduce(*stream_, maxima, Reduction::max);
        group.reduce_scatter(*stream_, full, shard);
        stream_->copy(full.data, shard.data, shard.bytes());
        group.all_gather(*stream_, full.row_range(0, part[0]), gathered);
      }
      results_.insert(results_.end(), {sums, maxima, shard, gathered});
    }
  }

  std::vector<std::vector<char>> results() {
    std::vector<std::vector<char>> all;
    for (const Tensor& tensor : results_) {
      all.emplace_back(tensor.bytes());
      stream_->copy(all.back().data(), tensor.data, tensor.bytes());
    }
    stream_->synchronize();
    return all;
  }

 private:
  int rank_, size_;
  std::unique_ptr<Stream> stream_;
  Buffer memory_, shards_;
  std::vector<Buffer> inputs_;  // in locked memory: other copies would hold up the host, and with it other ranks
  std::vector<Tensor> results_;
};

// What a group of one process gives every rank, on one GPU.
std::vector<std::vector<std::vector<char>>> results_of_one_process(Device& device, int size, int rounds) {
  std::vector<std::unique_ptr<GroupRank>> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(std::make_unique<GroupRank>(device, rank, size));
  auto groups = make_cuda_groups(std::vector<Device*>(static_cast<std::size_t>(size), &device));
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    threads.emplace_back([&, rank] { ranks[rank]->enqueue(*groups[rank], rounds); });
  }
  for (auto& thread : threads) thread.join();
  for (auto& rank : ranks) rank->stream().synchronize();
  std::vector<std::vector<std::vector<char>>> results;
  for (auto& rank : ranks) results.push_back(rank->results());
  groups.clear();
  return results;
}

// Names the results that are not the same.
std::string differences(const std::vector<std::vector<char>>& found, const std::vector<std::vector<char>>& wanted) {
  std::string names;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] != wanted[i]) names += "piece " + std::to_string(i / 4) + " result " + std::to_string(i % 4) + "; ";
  }
  return names;
}

// Ends what waits for a process once that is lost.
class LossWatch {
 public:
  LossWatch(GpuProcess& self, Transport& transport, std::function<void(std::exception_ptr)> end)
      : self_(self), transport_(transport) {
    const auto lost = [this, &transport, end](int process, const std::string& why) {
      const auto cause =
          std::make_exception_ptr(Error(ErrorKind::peer_lost, "process " + std::to_string(process) + ": " + why));
      transport.abort(cause);
      end(cause);
      seen_ = true;
    };
    self.control().on_lost(lost);
    transport.on_lost(lost);
  }
  ~LossWatch() {
    self_.control().on_lost({});
    transport_.on_lost({});
  }
  bool seen() const { return seen_; }

 private:
  GpuProcess& self_;
  Transport& transport_;
  std::atomic<bool> seen_{false};
};

// Delivers on edge 3 what its stream never gets to.
void promise_and_die(Transport& transport, Device& device, Stream& compute) {
  const auto link = make_link(transport.link(1, 0), {&device, 4096, "a test"});
  Lane& lane = transport.mirrors(3).at(0)->lanes[0];
  static_cast<void>(link->begin(compute, lane));
  compute.host_callback([] { std::this_thread::sleep_for(std::chrono::seconds(100)); });
  link->send(compute, lane);
  transport.deliver(3, 0, 0);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  ::raise(SIGKILL);
}

bool have(TransportKind kind, int gpus) {
  if (!needs_gpus(cuda_device_count(), gpus)) return false;
  if (kind == TransportKind::nccl && !has_nccl()) {
    skip("needs NCCL, and this build has none");
    return false;
  }
  return true;
}

}  // namespace

// --- What one process does: hidden, started by the cases below --------------------------------------------------------------

TEST_CASE("one process of edges between GPUs", "[.][gpu-process]") {
  const auto self = GpuProcess::here();
  if (!self) return;
  {
    EdgeRunner runner(*self);
    for (const EdgeId first : {0U, 100U}) {  // closed and opened anew
      runner.open(first, 8);
      CHECK(runner.run() == 0);
      runner.close();
    }
  }
  self->control().leave();
}

TEST_CASE("one process of groups of GPUs", "[.][gpu-process]") {
  const auto self = GpuProcess::here();
  if (!self) return;
  constexpr int rounds = 3;
  const int size = std::max(2, self->gpus());
  const Mesh mesh({.dp = size}, deal_ranks(size, 2));
  const auto transport = make_transport(self->kind(), self->control(), mesh);
  std::map<int, std::unique_ptr<Device>> owned;
  std::map<int, Device*> devices;
  std::vector<int> all;
  for (int rank = 0; rank < size; ++rank) {
    all.push_back(rank);
    if (mesh.place(rank).process != self->process()) continue;
    owned[rank] = make_cuda_device(self->gpu(mesh.place(rank).device));
    devices[rank] = owned[rank].get();
  }
  const auto make = [&] { return transport->group(all, 9, devices, GroupUse::beside_compute); };
  if (self->gpus() == 1) {
    CHECK_THROWS_WITH(make(), Catch::Contains("share one GPU"));
    static_cast<void>(self->control().exchange("refused", {}));
    return self->control().leave();
  }
  auto groups = make();
  std::map<int, std::unique_ptr<GroupRank>> ranks;
  for (const auto& [rank, device] : devices) {
    ranks[rank] = std::make_unique<GroupRank>(*device, rank, size);
    groups.at(rank)->share(ranks[rank]->arena());
  }
  std::vector<std::thread> threads;
  for (auto& [rank, work] : ranks) {
    threads.emplace_back([&groups, rank = rank, work = work.get()] { work->enqueue(*groups.at(rank), rounds); });
  }
  for (auto& thread : threads) thread.join();
  for (auto& [rank, work] : ranks) work->stream().synchronize();
  static_cast<void>(self->control().exchange("groups done", {}));
  groups.clear();
  const auto wanted = results_of_one_process(*devices.begin()->second, size, rounds);
  for (auto& [rank, work] : ranks) CHECK(differences(work->results(), wanted[static_cast<std::size_t>(rank)]) == "");
  self->control().leave();
}

// Process 1 promises a slot and a sum, and is killed. Process 0 waits for both on its GPU.
TEST_CASE("one process of GPUs of which one is killed", "[.][gpu-process]") {
  const auto self = GpuProcess::here();
  if (!self) return;
  const Mesh mesh({.dp = 2}, deal_ranks(2, 2));
  const auto device = make_cuda_device(self->gpu(0));
  const auto compute = device->make_stream("compute"), sums = device->make_stream("sums");
  const Buffer memory = device->allocate(4096, "a slot"), arena = device->allocate(1 << 20, "sums");
  const auto transport = make_transport(self->kind(), self->control(), mesh);
  const auto group = transport->group({0, 1}, 7, {{self->process(), device.get()}}, GroupUse::alone).at(self->process());
  const Tensor numbers{arena.data(), {1 << 18}, DType::f32};
  group->share(numbers);

  Notes arrived, credited;
  std::vector<EdgeReceiver> receivers;
  std::vector<EdgeSender> senders;
  auto slot = std::make_shared<Slot>();
  if (self->process() == 0) {
    slot->lanes.push_back({{memory.data(), {1024}, DType::f32}, 4096, device->make_event(), device->make_event(), 0});
    receivers.push_back({3, 1, {slot}, [&](int, int) { arrived.add("arrived"); }});
  } else {
    senders.push_back({3, 0, {device.get()}, {1}, [&](int) { credited.add("credit"); }});
  }
  transport->open_edges(std::move(receivers), std::move(senders));
  if (self->process() == 1) {
    credited.wait(1);
    promise_and_die(*transport, *device, *compute);
  }
  {
    const LossWatch loss(*self, *transport, [&](const std::exception_ptr& cause) { group->abort(cause); });
    transport->give_credit(3, 0);
    REQUIRE(arrived.wait(1).size() == 1);
    wait_until_ready(*compute, *slot, 0);
    mark_free(*compute, *slot, 0);
    group->all_reduce(*sums, numbers, Reduction::sum);
    try {  // what waited for the slot may fail or end without it
      compute->synchronize();
    } catch (const Error&) {
    }
    CHECK_THROWS_WITH(sums->synchronize(), Catch::Contains("process 1"));
    CHECK(loss.seen());
    transport->close_edges();
  }
  self->control().leave();
}

// ----------------------------------------------------------------------------------------------------------------------------

TEST_CASE("GPUs of two processes fill each other's slots", "[gpu]") {
  for (const TransportKind kind : {TransportKind::ipc, TransportKind::nccl}) {
    for (const int gpus : {2, 1}) {
      if (!have(kind, gpus) || (kind == TransportKind::nccl && gpus == 1)) continue;
      INFO(to_string(kind) << ", " << gpus << " GPUs");
      CHECK(run_gpu_processes({"one process of edges between GPUs", kind, 2, gpus}) == std::vector<int>{0, 0});
    }
  }
}

TEST_CASE("GPUs of two processes add to the same bits as those of one", "[gpu]") {
  for (const TransportKind kind : {TransportKind::ipc, TransportKind::nccl}) {
    for (const int gpus : {2, 4}) {
      if (!have(kind, gpus)) continue;
      INFO(to_string(kind) << ", " << gpus << " GPUs");
      CHECK(run_gpu_processes({"one process of groups of GPUs", kind, 2, gpus}) == std::vector<int>{0, 0});
    }
  }
}

TEST_CASE("a group of two processes that share a GPU is refused", "[gpu]") {
  if (!have(TransportKind::ipc, 1)) return;
  CHECK(run_gpu_processes({"one process of groups of GPUs", TransportKind::ipc, 2, 1}) == std::vector<int>{0, 0});
}

TEST_CASE("GPUs of two processes that each see their own alone reach each other", "[gpu]") {
  if (!have(TransportKind::ipc, 2)) return;
  CHECK(run_gpu_processes({"one process of edges between GPUs", TransportKind::ipc, 2, 2, true}) == std::vector<int>{0, 0});
}

TEST_CASE("a GPU does not wait for ever for a process that was killed", "[gpu]") {
  for (const TransportKind kind : {TransportKind::ipc, TransportKind::nccl}) {
    if (!have(kind, 2)) continue;
    INFO(to_string(kind));
    CHECK(run_gpu_processes({"one process of GPUs of which one is killed", kind, 2, 2}) == std::vector<int>{0, -SIGKILL});
  }
}

}  // namespace pipetrain::test
