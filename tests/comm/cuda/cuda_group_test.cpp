// The group of GPUs, on as many GPUs as there are: ranks share them when they are too few.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "comm/cuda_group.hpp"
#include "core/error.hpp"
#include "skip.hpp"

namespace pipetrain {
namespace {

// Everything is allocated before any rank's kernel may wait for its peers.
class Ranks {
 public:
  explicit Ranks(int size) {
    std::vector<Device*> devices;
    for (int rank = 0; rank < size; ++rank) {
      devices_.push_back(make_cuda_device(rank % cuda_device_count()));
      devices.push_back(devices_.back().get());
      streams_.push_back(devices_.back()->make_stream("rank " + std::to_string(rank)));
    }
    groups_ = make_cuda_groups(devices);
  }
  ~Ranks() { groups_.clear(); }

  int size() const { return static_cast<int>(groups_.size()); }
  Group& group(int rank) { return *groups_[static_cast<std::size_t>(rank)]; }
  Stream& stream(int rank) { return *streams_[static_cast<std::size_t>(rank)]; }

  Tensor make(int rank, const Shape& shape, DType dtype, const std::vector<float>& values = {}) {
    Tensor tensor{nullptr, shape, dtype};
    memory_.push_back(devices_[static_cast<std::size_t>(rank)]->allocate(tensor.bytes() + 1, "test tensor"));
    tensor.data = memory_.back().data();
    if (!values.empty()) copy_in(rank, tensor, values);
    return tensor;
  }

  std::vector<float> get(int rank, const Tensor& tensor) {
    std::vector<char> raw(tensor.bytes());
    stream(rank).copy(raw.data(), tensor.data, raw.size());
    stream(rank).synchronize();
    std::vector<float> values;
    for (std::size_t i = 0; i < static_cast<std::size_t>(tensor.elements()); ++i)
      values.push_back(decode(raw.data(), i, tensor.dtype));
    return values;
  }

  void run(const std::function<void(int)>& enqueue) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size(); ++rank) threads.emplace_back([&, rank] { enqueue(rank); });
    for (auto& thread : threads) thread.join();
    for (int rank = 0; rank < size(); ++rank) stream(rank).synchronize();
  }

 private:
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<Buffer> memory_;
  std::vector<std::unique_ptr<Group>> groups_;

  static float decode(const char* raw, std::size_t i, DType dtype) {
    if (dtype == DType::f64) {
      double value = 0;
      std::memcpy(&value, raw + 8 * i, 8);
      return static_cast<float>(value);
    }
    std::uint32_t bits = 0;
    const std::size_t bytes = size_of(dtype);
    std::memcpy(reinterpret_cast<char*>(&bits) + 4 - bytes, raw + bytes * i, bytes);  // bf16 is the upper half
    float value = 0;
    std::memcpy(&value, &bits, 4);
    return value;
  }

  void copy_in(int rank, const Tensor& tensor, const std::vector<float>& values) {
    std::vector<char> raw(tensor.bytes());
    const std::size_t bytes = size_of(tensor.dtype);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double wide = values[i];
      if (tensor.dtype == DType::f64) {
        std::memcpy(raw.data() + 8 * i, &wide, 8);
      } else {
        std::memcpy(raw.data() + bytes * i, reinterpret_cast<const char*>(&values[i]) + 4 - bytes, bytes);
      }
    }
    stream(rank).copy(tensor.data, raw.data(), raw.size());
    stream(rank).synchronize();
  }
};

bool have_gpu() { return test::needs_gpus(cuda_device_count()); }

// Multiples of 1/8 below 16: bf16 holds them, and sums of eight are exact.
std::vector<float> random_eighths(std::int64_t count, std::mt19937& random) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 127) - 63) / 8;
  return values;
}

struct Case {
  std::int64_t rows, cols;
  DType dtype;
};

const std::vector<Case> cases{{7, 24, DType::f32}, {64, 5, DType::f32},     {1000, 512, DType::bf16}, {13, 6, DType::bf16},
                              {9, 3, DType::bf16}, {5000, 128, DType::f32}, {2, 64, DType::bf16},     {77, 10, DType::f64}};

TEST_CASE("GPU collectives agree with sums over the ranks", "[gpu]") {
  if (!have_gpu()) return;
  for (const int size : {1, 2, 4}) {
    std::mt19937 random(static_cast<unsigned>(size));
    Ranks ranks(size);
    for (const Case& c : cases) {
      INFO(size << " ranks, " << c.rows << " x " << c.cols << " " << to_string(c.dtype));
      const RowSplit split(c.rows, size);
      std::vector<std::vector<float>> inputs;
      std::vector<float> sum(static_cast<std::size_t>(c.rows * c.cols), 0.0F), largest(sum.size(), -100.0F), gathered;
      std::vector<Tensor> full, shard, reduced, wide, maxima, sums;
      for (int rank = 0; rank < size; ++rank) {
        inputs.push_back(random_eighths(c.rows * c.cols, random));
        for (std::size_t i = 0; i < sum.size(); ++i) {
          sum[i] += inputs.back()[i];
          largest[i] = std::max(largest[i], inputs.back()[i]);
        }
        const auto begin = inputs.back().begin() + split.begin(rank) * c.cols,
                   end = inputs.back().begin() + split.end(rank) * c.cols;
        gathered.insert(gathered.end(), begin, end);
        const Shape part{split.count(rank), c.cols}, whole{c.rows, c.cols};
        full.push_back(ranks.make(rank, whole, c.dtype, inputs.back()));
        shard.push_back(ranks.make(rank, part, c.dtype, std::vector<float>(begin, end)));
        reduced.push_back(ranks.make(rank, part, c.dtype));
        wide.push_back(ranks.make(rank, part, c.dtype == DType::f64 ? DType::f64 : DType::f32));
        sums.push_back(ranks.make(rank, whole, c.dtype, inputs.back()));
        maxima.push_back(ranks.make(rank, whole, c.dtype, inputs.back()));
      }
      ranks.run([&](int rank) {
        const auto r = static_cast<std::size_t>(rank);
        for (int round = 0; round < 3; ++round) {
          ranks.group(rank).reduce_scatter(ranks.stream(rank), full[r], reduced[r]);
          ranks.group(rank).reduce_scatter(ranks.stream(rank), full[r], wide[r]);
        }
        ranks.group(rank).all_gather(ranks.stream(rank), shard[r], full[r]);
        ranks.group(rank).all_reduce(ranks.stream(rank), sums[r], Reduction::sum);
        ranks.group(rank).all_reduce(ranks.stream(rank), maxima[r], Reduction::max);
      });
      for (int rank = 0; rank < size; ++rank) {
        const auto r = static_cast<std::size_t>(rank);
        const std::vector<float> own(sum.begin() + split.begin(rank) * c.cols, sum.begin() + split.end(rank) * c.cols);
        // In double parentheses, or Catch would print every element of what differs.
        CHECK((ranks.get(rank, wide[r]) == own));
        CHECK((ranks.get(rank, full[r]) == gathered));
        CHECK((ranks.get(rank, maxima[r]) == largest));
        if (c.dtype != DType::bf16) {
          CHECK((ranks.get(rank, reduced[r]) == own));
          CHECK((ranks.get(rank, sums[r]) == sum));
        } else {  // one rounding of the exact sum
          const auto close = [](const std::vector<float>& a, const std::vector<float>& b) {
            for (std::size_t i = 0; i < a.size(); ++i) {
              if (std::fabs(a[i] - b[i]) > std::fabs(b[i]) / 256) return false;
            }
            return a.size() == b.size();
          };
          CHECK(close(ranks.get(rank, reduced[r]), own));
          CHECK(close(ranks.get(rank, sums[r]), sum));
        }
      }
    }
  }
}

TEST_CASE("GPUs move tensors in pieces beside the work on them", "[gpu]") {
  if (!have_gpu()) return;
  for (const int size : {2, 3, 4}) {
    const std::int64_t rows = 1001, cols = 96;
    const RowSplit split(rows, size);
    std::mt19937 random(static_cast<unsigned>(size));
    Ranks ranks(size);
    std::vector<Tensor> source, copied, shard, gathered, used, made, received;
    std::vector<std::vector<float>> inputs;
    for (int rank = 0; rank < size; ++rank) {
      const Shape whole{rows, cols}, part{split.count(rank), cols};
      inputs.push_back(random_eighths(rows * cols, random));
      const std::vector<float>& input = inputs.back();
      source.push_back(ranks.make(rank, whole, DType::f32, input));
      shard.push_back(ranks.make(rank, part, DType::f32,
                                 {input.begin() + split.begin(rank) * cols, input.begin() + split.end(rank) * cols}));
      for (auto* tensors : {&gathered, &used, &made}) tensors->push_back(ranks.make(rank, whole, DType::f32));
      received.push_back(ranks.make(rank, {size, split.count(rank), cols}, DType::f32));
      copied.push_back(ranks.make(rank, whole, DType::f32));
    }
    ranks.run([&](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      Stream& stream = ranks.stream(rank);
      PiecewiseTransfer* transfer = ranks.group(rank).in_pieces();
      const auto copy = [&](const Tensor& target, const Tensor& from) { stream.copy(target.data, from.data, from.bytes()); };
      for (int round = 0; round < 5; ++round) {  // tensors are written again at once: nobody may still be reading them
        stream.zero(gathered[r]);
        stream.zero(received[r]);
        transfer->gather(stream, shard[r], gathered[r], [&](std::int64_t begin, std::int64_t end) {
          const bool own = begin == split.begin(rank);
          copy(used[r].row_range(begin, end), own ? shard[r] : gathered[r].row_range(begin, end));
        });
        stream.zero(shard[r]);
        copy(shard[r], gathered[r].row_range(split.begin(rank), split.end(rank)));
        transfer->exchange(
            stream, made[r], received[r],
            [&](std::int64_t begin, std::int64_t end) { copy(made[r].row_range(begin, end), source[r].row_range(begin, end)); },
            [&] { copy(copied[r], source[r]); });
        copy(received[r].row_range(rank, rank + 1), made[r].row_range(split.begin(rank), split.end(rank)));
        stream.zero(made[r]);
      }
    });
    for (int rank = 0; rank < size; ++rank) {
      INFO("rank " << rank << " of " << size);
      const auto r = static_cast<std::size_t>(rank);
      std::vector<float> all_rows, own_rows;
      for (int peer = 0; peer < size; ++peer) {
        const std::vector<float>& input = inputs[static_cast<std::size_t>(peer)];
        all_rows.insert(all_rows.end(), input.begin() + split.begin(peer) * cols, input.begin() + split.end(peer) * cols);
        own_rows.insert(own_rows.end(), input.begin() + split.begin(rank) * cols, input.begin() + split.end(rank) * cols);
      }
      CHECK((ranks.get(rank, gathered[r]) == all_rows));
      CHECK((ranks.get(rank, used[r]) == all_rows));
      CHECK((ranks.get(rank, received[r]) == own_rows));
      CHECK((ranks.get(rank, copied[r]) == inputs[r]));
    }
  }
}

TEST_CASE("aborting a group of GPUs ends the waiting of its host threads", "[gpu]") {
  if (!have_gpu()) return;
  Ranks ranks(2);
  const Tensor shard = ranks.make(0, {10, 4}, DType::f32, std::vector<float>(40, 1.0F));
  const Tensor full = ranks.make(0, {20, 4}, DType::f32);
  std::thread waiting([&] {  // rank 1 never comes
    ranks.group(0).in_pieces()->gather(ranks.stream(0), shard, full, [](std::int64_t, std::int64_t) {});
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ranks.group(1).abort(std::make_exception_ptr(Error(ErrorKind::aborted, "rank 1 is gone")));
  waiting.join();
  CHECK_THROWS_WITH(ranks.stream(0).synchronize(), "rank 1 is gone");
}

TEST_CASE("aborting a group of GPUs ends the waiting of its kernels", "[gpu]") {
  if (!have_gpu()) return;
  Ranks ranks(2);
  const Tensor tensor = ranks.make(0, {1000}, DType::f32, std::vector<float>(1000, 1.0F));
  ranks.group(0).all_reduce(ranks.stream(0), tensor, Reduction::sum);  // rank 1 never comes
  ranks.group(1).abort(std::make_exception_ptr(Error(ErrorKind::aborted, "rank 1 is gone")));
  CHECK_THROWS_WITH(ranks.stream(0).synchronize(), "rank 1 is gone");
  ranks.group(0).all_reduce(ranks.stream(1), tensor, Reduction::sum);
  CHECK_THROWS_WITH(ranks.stream(1).synchronize(), "rank 1 is gone");
}

}  // namespace
}  // namespace pipetrain
