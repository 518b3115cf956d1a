// Measures what the GPUs of one host reach together: collectives by size, and each tensor-parallel product with its
// communication, sequential and in overlapping pieces, compared with the product alone.
//
// bench_gpu_groups [tokens]
//
// Seconds are the slowest rank's, medians of several runs of many calls in a row on random data.
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "bench/gpu/random_memory.hpp"
#include "bench/result.hpp"
#include "comm/groups.hpp"
#include "core/device.hpp"
#include "core/error.hpp"
#include "ops/ops.hpp"

using namespace pipetrain;

namespace {

// A group that forwards to another but has no means to move tensors in pieces.
class WholeGroup : public Group {
 public:
  explicit WholeGroup(Group& group) : group_(group) {}
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  void all_gather(Stream& stream, const Tensor& shard, const Tensor& full, const RowSplit& rows) override {
    group_.all_gather(stream, shard, full, rows);
  }
  void reduce_scatter(Stream& stream, const Tensor& full, const Tensor& shard, const RowSplit& rows) override {
    group_.reduce_scatter(stream, full, shard, rows);
  }
  void all_reduce(Stream& stream, const Tensor& tensor, Reduction reduction) override {
    group_.all_reduce(stream, tensor, reduction);
  }
  void shift(Stream& stream, const Tensor& source, const Tensor& target) override { group_.shift(stream, source, target); }
  void abort(std::exception_ptr cause) override { group_.abort(std::move(cause)); }

 private:
  Group& group_;
};

struct Rank {
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Ops> ops;
  std::unique_ptr<Group> group, whole;
  Buffer memory;  // random numbers
  std::size_t used = 0;

  Tensor make(const Shape& shape, DType dtype = DType::bf16) {
    const Tensor tensor{static_cast<char*>(memory.data()) + used, shape, dtype};
    used += align_up(tensor.bytes());
    if (used > memory.bytes()) throw Error(ErrorKind::internal, "the bench's memory is too small");
    return tensor;
  }
};

class GroupBench {
 public:
  explicit GroupBench(std::int64_t tokens) : tokens_(tokens) {
    std::vector<Device*> devices;
    for (int i = 0; i < cuda_device_count(); ++i) {
      Rank& rank = ranks_.emplace_back();
      rank.device = make_cuda_device(i);
      rank.stream = rank.device->make_stream("bench");
      rank.ops = make_cuda_ops(*rank.stream);
      rank.memory = rank.device->allocate(std::size_t{3} << 30, "bench");
      bench::fill_with_random_numbers(*rank.stream, rank.memory, 1.0F / 16);
      devices.push_back(rank.device.get());
    }
    auto groups = make_groups(devices);
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      ranks_[i].group = std::move(groups[i]);
      ranks_[i].whole = std::make_unique<WholeGroup>(*ranks_[i].group);
    }
  }
  ~GroupBench() {
    for (auto& rank : ranks_) rank.group.reset();  // before the streams that it uses
  }

  void run() {
    for (const std::size_t kibibytes : {1, 1024, 16384, 32768, 262144}) collectives(kibibytes << 10);
    const auto size = static_cast<std::int64_t>(ranks_.size());
    const std::int64_t hidden = 4096, inner = 11008 / size;
    gathered("gather, qkv", MatmulKind::forward, {3 * hidden / size, hidden});
    gathered("gather, gate and up", MatmulKind::forward, {2 * inner, hidden});
    gathered("gather, o's input gradient", MatmulKind::input_grad, {hidden, hidden / size});
    gathered("gather, down's input gradient", MatmulKind::input_grad, {hidden, inner});
    scattered("o, scatter", {hidden, hidden / size});
    scattered("down, scatter", {hidden, inner});
    backward("qkv's backward, scatter", {3 * hidden / size, hidden});
    backward("gate and up's backward, scatter", {2 * inner, hidden});
    fmt::print(stderr, "{}", table_);
  }

 private:
  std::int64_t tokens_;
  std::vector<Rank> ranks_;
  std::string table_;
  double host_ = 0;  // microseconds in which the first rank's thread enqueued the last measured call

  // Returns the slowest rank's microseconds for a call that every rank makes.
  double microseconds(const std::function<void(Rank&)>& call) {
    constexpr int rounds = 7, calls = 20;  // more would fill the streams' queues, and the host would wait
    std::vector<std::vector<double>> times(ranks_.size());
    std::barrier meeting(static_cast<std::ptrdiff_t>(ranks_.size()));
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      threads.emplace_back([&, i] {
        Rank& rank = ranks_[i];
        for (int round = -1; round < rounds; ++round) {  // the first round only warms up
          rank.stream->synchronize();
          meeting.arrive_and_wait();
          const auto start = std::chrono::steady_clock::now();
          for (int n = 0; n < calls; ++n) call(rank);
          const std::chrono::duration<double> enqueued = std::chrono::steady_clock::now() - start;
          rank.stream->synchronize();
          const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
          if (round >= 0) times[i].push_back(took.count() / calls * 1e6);
          if (i == 0) host_ = enqueued.count() / calls * 1e6;
        }
      });
    }
    for (auto& thread : threads) thread.join();
    std::vector<double> slowest;
    for (std::size_t round = 0; round < rounds; ++round) {
      double most = 0;
      for (const auto& own : times) most = std::max(most, own[round]);
      slowest.push_back(most);
    }
    std::nth_element(slowest.begin(), slowest.begin() + rounds / 2, slowest.end());
    return slowest[rounds / 2];
  }

  template <class Make>
  std::vector<Tensor> each(Make make) {
    std::vector<Tensor> tensors;
    for (auto& rank : ranks_) tensors.push_back(make(rank));
    return tensors;
  }
  static const Tensor& mine(const std::vector<Tensor>& tensors, const Rank& rank) {
    return tensors[static_cast<std::size_t>(rank.group->rank())];
  }
  void free_memory() {
    for (auto& rank : ranks_) rank.used = 0;
  }

  void collectives(std::size_t bytes) {
    const auto size = static_cast<std::int64_t>(ranks_.size());
    const auto rows = static_cast<std::int64_t>(bytes / 64);  // of 32 bf16 or 16 f32
    const auto full = each([&](Rank& r) { return r.make({rows, 32}); });
    const auto shard = each([&](Rank& r) {
      return r.make({RowSplit(rows, static_cast<int>(size)).count(r.group->rank()), 32});
    });
    const auto words = each([&](Rank& r) { return r.make({rows, 16}, DType::f32); });
    const auto report = [&](const std::string& name, double volume, const std::function<void(Rank&)>& call) {
      const double time = microseconds(call);
      const double rate = volume * static_cast<double>(bytes) / time * 1e-3;
      bench::report(fmt::format("gpus {} {} of {} KiB", size, name, bytes >> 10), time, "us");
      table_ += fmt::format("{:<16} {:>7} KiB {:9.1f} us {:6.0f} GB/s\n", name, bytes >> 10, time, rate);
    };
    const double others = static_cast<double>(size - 1) / static_cast<double>(size);
    report("all_gather", others, [&](Rank& r) { r.group->all_gather(*r.stream, mine(shard, r), mine(full, r)); });
    report("reduce_scatter", others, [&](Rank& r) { r.group->reduce_scatter(*r.stream, mine(full, r), mine(shard, r)); });
    report("all_reduce", 2 * others, [&](Rank& r) { r.group->all_reduce(*r.stream, mine(words, r), Reduction::max); });
    free_memory();
  }

  using Call = std::function<void(Rank&, const TensorParallel&)>;
  using Product = std::function<void(Rank&, std::int64_t begin, std::int64_t end)>;

  void compare(const std::string& name, const Product& product, const Call& call) {
    const double bare = microseconds([&](Rank& r) { product(r, 0, tokens_); });
    const RowSplit rows(tokens_, static_cast<int>(ranks_.size()));
    const double cut = microseconds([&](Rank& r) {
      for (int rank = 0; rank < rows.ranks(); ++rank) product(r, rows.begin(rank), rows.end(rank));
    });
    const double host_alone = host_;
    const double in_a_row = microseconds([&](Rank& r) { call(r, {r.whole.get(), true}); });
    const double in_pieces = microseconds([&](Rank& r) { call(r, {r.group.get(), true}); });
    const double hidden = (in_a_row - in_pieces) / (in_a_row - bare);
    bench::report(fmt::format("gpus {} {} tokens {}: communication hidden", ranks_.size(), tokens_, name), hidden, "share");
    table_ += fmt::format(
        "{:<32} alone {:7.1f} us, cut {:7.1f} (host {:5.1f}), in a row {:7.1f}, in pieces {:7.1f} (host {:5.1f}): {:3.0f} % "
        "hidden\n",
        name, bare, cut, host_alone, in_a_row, in_pieces, host_, 100 * hidden);
    free_memory();
  }

  Tensor shard_of(Rank& rank, std::int64_t cols) {
    return rank.make({RowSplit(tokens_, static_cast<int>(ranks_.size())).count(rank.group->rank()), cols});
  }

  void gathered(const std::string& name, MatmulKind kind, const Shape& weight) {
    const bool forward = kind == MatmulKind::forward;
    const std::int64_t in = forward ? weight[1] : weight[0], out = forward ? weight[0] : weight[1];
    const auto w = each([&](Rank& r) { return r.make(weight); });
    const auto shard = each([&](Rank& r) { return shard_of(r, in); });
    const auto full = each([&](Rank& r) { return r.make({tokens_, in}); });
    const auto y = each([&](Rank& r) { return r.make({tokens_, out}); });
    compare(
        name,
        [&](Rank& r, std::int64_t begin, std::int64_t end) {
          const Tensor x = mine(full, r).row_range(begin, end);
          r.ops->gather_matmul({.kind = kind, .shard = x, .w = mine(w, r), .full = x, .out = mine(y, r).row_range(begin, end)});
        },
        [&](Rank& r, const TensorParallel& tp) {
          r.ops->gather_matmul(
              {.tp = tp, .kind = kind, .shard = mine(shard, r), .w = mine(w, r), .full = mine(full, r), .out = mine(y, r)});
        });
  }

  void scattered(const std::string& name, const Shape& weight) {
    const auto w = each([&](Rank& r) { return r.make(weight); });
    const auto x = each([&](Rank& r) { return r.make({tokens_, weight[1]}); });
    const auto y = each([&](Rank& r) { return r.make({tokens_, weight[0]}); });
    const auto residual = each([&](Rank& r) { return shard_of(r, weight[0]); });
    const auto out = each([&](Rank& r) { return shard_of(r, weight[0]); });
    compare(
        name,
        [&](Rank& r, std::int64_t begin, std::int64_t end) {
          r.ops->matmul_scatter({.kind = MatmulKind::forward,
                                 .in = mine(x, r).row_range(begin, end),
                                 .w = mine(w, r),
                                 .out = mine(y, r).row_range(begin, end)});
        },
        [&](Rank& r, const TensorParallel& tp) {
          r.ops->matmul_scatter({.tp = tp,
                                 .kind = MatmulKind::forward,
                                 .in = mine(x, r),
                                 .w = mine(w, r),
                                 .residual = mine(residual, r),
                                 .out = mine(out, r)});
        });
  }

  void backward(const std::string& name, const Shape& weight) {
    const auto w = each([&](Rank& r) { return r.make(weight); });
    const auto dw = each([&](Rank& r) { return r.make(weight, DType::f32); });
    const auto dy = each([&](Rank& r) { return r.make({tokens_, weight[0]}); });
    const auto x = each([&](Rank& r) { return r.make({tokens_, weight[1]}); });
    const auto whole = each([&](Rank& r) { return r.make({tokens_, weight[1]}); });
    const auto dx = each([&](Rank& r) { return shard_of(r, weight[1]); });
    compare(
        name,
        [&](Rank& r, std::int64_t begin, std::int64_t end) {
          r.ops->matmul_scatter({.kind = MatmulKind::input_grad,
                                 .in = mine(dy, r).row_range(begin, end),
                                 .w = mine(w, r),
                                 .out = mine(whole, r).row_range(begin, end)});
          if (end == tokens_) r.ops->weight_grad({.dy = mine(dy, r), .x = mine(x, r), .dw = mine(dw, r)});
        },
        [&](Rank& r, const TensorParallel& tp) {
          r.ops->backward_scatter(
              {.tp = tp, .dy = mine(dy, r), .w = mine(w, r), .dx = mine(dx, r), .x = mine(x, r), .dw = mine(dw, r)});
        });
  }
};

}  // namespace

int main(int argc, char** argv) {
  try {
    if (cuda_device_count() < 2) throw Error(ErrorKind::unavailable, "a group needs two GPUs or more");
    GroupBench(argc > 1 ? std::atoll(argv[1]) : 4096).run();
  } catch (const Error& error) {
    fmt::print(stderr, "bench_gpu_groups: error: {}\n", error.what());
    return exit_status(error.kind());
  }
  return 0;
}
