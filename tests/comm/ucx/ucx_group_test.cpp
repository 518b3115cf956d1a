#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "comm/inproc/inprocess_group.hpp"
#include "comm/shared_control.hpp"
#include "comm/ucx/ucx_transport.hpp"
#include "core/device.hpp"
#include "wait_until.hpp"

using namespace pipetrain;
using test::require;

namespace {

// The process of each rank of the group.
using Layout = std::vector<int>;

Mesh mesh_of(const Layout& layout) {
  std::vector<RankLocation> places;
  for (const int process : layout) places.push_back({process, static_cast<int>(places.size())});
  MeshShape shape;
  shape.dp = static_cast<int>(layout.size());
  return Mesh(shape, places);
}

int processes_of(const Layout& layout) { return *std::max_element(layout.begin(), layout.end()) + 1; }

// The tensors of every rank: one for sums, one for maxima, one to scatter, a shard to gather, one to pass on. The ranks
// have unequal numbers of rows.
struct Work {
  DType dtype = DType::f32;
  std::int64_t rows = 0, cols = 0;
};

// From -1 to 1, times a power of ten, so that every order of addition gives other bits.
constexpr double scales[] = {0x1p-63 * 1e-4, 0x1p-63 * 1e-3, 0x1p-63 * 1e-2, 0x1p-63 * 1e-1, 0x1p-63,
                             0x1p-63 * 1e1,  0x1p-63 * 1e2,  0x1p-63 * 1e3,  0x1p-63 * 1e4};

template <class T>
void draw_values(Buffer& buffer, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  T* values = static_cast<T*>(buffer.data());
  for (std::size_t i = 0; i < buffer.bytes() / sizeof(T); ++i) {
    const std::uint64_t bits = random();
    values[i] = static_cast<T>(static_cast<double>(static_cast<std::int64_t>(bits)) * scales[bits % 9]);
  }
}

// One rank's tensors, before and after the collectives.
class Rank {
 public:
  Rank(Device& device, const Work& work, int rank, int size, std::uint64_t seed) : stream_(device.make_stream("rank")) {
    const std::int64_t own = RowSplit(work.rows, size).count(rank);
    sum_ = make(device, work, work.rows);
    most_ = make(device, work, work.rows);
    full_ = make(device, work, work.rows);
    scattered_ = make(device, work, own);
    shard_ = make(device, work, own);
    gathered_ = make(device, work, work.rows);
    uneven_ = make(device, work, work.rows);
    passed_ = make(device, work, work.rows);
    come_ = make(device, work, work.rows);
    exchanged_ = make(device, work, work.rows);
    exchanged_too_ = make(device, work, work.rows);
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      const std::uint64_t from = seed * 1000 + static_cast<unsigned>(rank) * 10 + i;
      work.dtype == DType::f64 ? draw_values<double>(buffers_[i], from) : draw_values<float>(buffers_[i], from);
    }
  }

  void run(Group& group) {
    group.all_reduce(*stream_, sum_, Reduction::sum);
    group.all_reduce(*stream_, most_, Reduction::max);
    group.reduce_scatter(*stream_, full_, scattered_);
    group.all_gather(*stream_, shard_, gathered_);
    group.all_reduce(*stream_, gathered_, Reduction::sum);
    // In place, for parts whose number has no relation to the number of ranks.
    std::vector<std::int64_t> cuts;
    for (int rank = 0; rank <= group.size(); ++rank) cuts.push_back(uneven_.rows() * rank * rank / group.size() / group.size());
    const RowSplit rows(cuts);
    const Tensor own = uneven_.row_range(rows.begin(group.rank()), rows.end(group.rank()));
    group.reduce_scatter(*stream_, uneven_, own, rows);
    group.all_gather(*stream_, own, uneven_, rows);
    exchange(group);
    for (int i = 0; i < 3; ++i) group.shift(*stream_, i % 2 == 0 ? passed_ : come_, i % 2 == 0 ? come_ : passed_);
  }
  void wait() { stream_->synchronize(); }

  bool equals(const Rank& other) const {
    if (received_ != other.received_) return false;
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      const std::size_t bytes = buffers_[i].bytes();
      if (bytes > 0 && std::memcmp(buffers_[i].data(), other.buffers_[i].data(), bytes) != 0) return false;
    }
    return true;
  }

 private:
  // Members send and receive different numbers of rows, and some none.
  void exchange(Group& group) {
    offsets_.assign(1, 0);
    for (int member = 0; member < group.size(); ++member) {
      const std::int64_t rows = full_.rows() * (member + group.rank() % 2) / (group.size() * (group.size() + 1));
      offsets_.push_back(offsets_.back() + static_cast<std::int32_t>(rows));
    }
    received_.resize(offsets_.size());
    const std::int64_t numbers = group.size() + 1;
    order_.resize(static_cast<std::size_t>(full_.rows()));
    for (std::size_t row = 0; row < order_.size(); ++row) order_[row] = static_cast<std::int32_t>(order_.size() - 1 - row);
    const Tensor order{order_.data(), {full_.rows()}, DType::i32};
    group.all_to_all(*stream_, {.rows = {{full_, exchanged_}, {passed_, exchanged_too_, order}},
                                .offsets = {offsets_.data(), {numbers}, DType::i32},
                                .received = {received_.data(), {numbers}, DType::i32}});
  }

  Tensor make(Device& device, const Work& work, std::int64_t rows) {
    Tensor tensor{nullptr, {rows, work.cols}, work.dtype};
    buffers_.push_back(device.allocate(tensor.bytes(), "test"));
    tensor.data = buffers_.back().data();
    return tensor;
  }

  std::vector<Buffer> buffers_;
  Tensor sum_, most_, full_, scattered_, shard_, gathered_, uneven_, passed_, come_, exchanged_, exchanged_too_;
  std::vector<std::int32_t> offsets_, received_, order_;
  std::unique_ptr<Stream> stream_;
};

std::vector<std::unique_ptr<Rank>> reference(Device& device, const Work& work, int size, std::uint64_t seed) {
  auto groups = make_inprocess_groups(size);
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(std::make_unique<Rank>(device, work, rank, size, seed));
  for (int rank = 0; rank < size; ++rank) ranks[static_cast<std::size_t>(rank)]->run(*groups[static_cast<std::size_t>(rank)]);
  for (auto& rank : ranks) rank->wait();
  return ranks;
}

void compare(ControlPlane& control, const Layout& layout, const std::vector<Work>& works) {
  const Mesh mesh = mesh_of(layout);
  const auto device = make_cpu_device(0, 1);
  UcxTransport transport(control, mesh);
  std::vector<int> members;
  std::map<int, Device*> devices;
  for (int rank = 0; rank < mesh.size(); ++rank) {
    members.push_back(rank);
    if (mesh.place(rank).process == control.process()) devices[rank] = device.get();
  }
  const auto groups = transport.group(members, 5, devices, GroupUse::alone);
  require(groups.size() == devices.size(), "a handle for each rank of this process");
  std::uint64_t seed = 1;
  for (const Work& work : works) {
    const auto expected = reference(*device, work, mesh.size(), ++seed);
    std::map<int, std::unique_ptr<Rank>> own;
    for (const auto& [rank, group] : groups) {
      require(group->size() == mesh.size() && group->rank() == rank, "the rank's place in the group");
      own[rank] = std::make_unique<Rank>(*device, work, rank, mesh.size(), seed);
    }
    for (const auto& [rank, group] : groups) own[rank]->run(*group);
    for (const auto& [rank, group] : groups) own[rank]->wait();
    for (const auto& [rank, group] : groups) {
      require(own[rank]->equals(*expected[static_cast<std::size_t>(rank)]),
              "rank " + std::to_string(rank) + ", " + std::to_string(work.rows) + " x " + std::to_string(work.cols) +
                  ": other bits than in one process");
    }
  }
  require(transport.dropped() == 0, "messages were dropped");
  control.exchange("done", {});
}

std::vector<Work> random_works(std::uint64_t seed, int count) {
  std::mt19937_64 random(seed);
  std::vector<Work> works;
  for (int i = 0; i < count; ++i) {
    Work work;
    work.dtype = random() % 2 == 0 ? DType::f32 : DType::f64;
    work.rows = static_cast<std::int64_t>(random() % (i % 3 == 0 ? 5 : 3000));
    work.cols = static_cast<std::int64_t>(1 + random() % (i % 4 == 0 ? 300 : 20));
    works.push_back(work);
  }
  return works;
}

void compare_in_processes(const Layout& layout, const std::vector<Work>& works) {
  test::SharedControl shared(processes_of(layout));
  const auto wrong = test::in_processes(processes_of(layout), [&](int process) {
    const auto control = shared.plane(process);
    compare(*control, layout, works);
  });
  for (const auto& line : wrong) UNSCOPED_INFO(line);
  CHECK(wrong.empty());
}

}  // namespace

TEST_CASE("a group over two processes has the bits of one process") { compare_in_processes({0, 1}, random_works(1, 40)); }

TEST_CASE("a group over four processes has the bits of one process") {
  compare_in_processes({0, 1, 2, 3}, random_works(2, 40));
}

TEST_CASE("a group whose processes run several ranks each has the bits of one process") {
  compare_in_processes({0, 0, 1, 1}, random_works(3, 30));
  compare_in_processes({0, 1, 1, 2, 0}, random_works(4, 30));
}

TEST_CASE("tensors of many pieces are added over processes") {
  compare_in_processes({0, 1, 1}, {{DType::f32, 3001, 1000}, {DType::f64, 1501, 999}});
}

TEST_CASE("an aborted group over processes ends the waiting of its ranks with the cause") {
  test::SharedControl shared(2);
  const Layout layout = {0, 1};
  const auto wrong = test::in_processes(2, [&](int process) {
    const auto control = shared.plane(process);
    const Mesh mesh = mesh_of(layout);
    const auto device = make_cpu_device(0, 1);
    const auto stream = device->make_stream("rank");
    UcxTransport transport(*control, mesh);
    const auto group = transport.group({0, 1}, 0, {{process, device.get()}}, GroupUse::alone).at(process);
    Buffer memory = device->allocate(std::size_t{8} << 20, "test");
    // Process 1 never comes.
    if (process == 0) {
      std::atomic<bool> begun = false;
      stream->host_callback([&] { begun = true; });
      group->all_reduce(*stream, {memory.data(), {2 << 20}, DType::f32}, Reduction::sum);
      require(test::wait_until([&] { return begun.load(); }), "the stream comes to the sum");
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // it sends its parts, and waits
      group->abort(std::make_exception_ptr(std::runtime_error("over")));
      std::string why;
      try {
        stream->synchronize();
      } catch (const std::exception& error) {
        why = error.what();
      }
      require(why == "over", "the stream fails with the cause, not with '" + why + "'");
    }
    control->exchange("done", {});
  });
  for (const auto& line : wrong) UNSCOPED_INFO(line);
  CHECK(wrong.empty());
}
