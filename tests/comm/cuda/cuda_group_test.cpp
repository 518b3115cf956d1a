// The group of GPUs, on as many GPUs as there are: ranks share them if there are too few.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "comm/cuda/cuda_group.hpp"
#include "comm/cuda/in_turns.hpp"
#include "core/error.hpp"
#include "half.hpp"
#include "skip.hpp"

namespace pipetrain {
namespace {

using test::in_turns, test::Pass;

// Allocates everything before any rank's kernel may wait for its peers.
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

  Tensor make_numbers(int rank, const std::vector<std::int32_t>& numbers) {
    const Tensor tensor = make(rank, {static_cast<std::int64_t>(numbers.size())}, DType::i32);
    stream(rank).copy(tensor.data, numbers.data(), tensor.bytes());
    stream(rank).synchronize();
    return tensor;
  }
  std::vector<std::int32_t> get_numbers(int rank, const Tensor& tensor) {
    std::vector<std::int32_t> numbers(static_cast<std::size_t>(tensor.elements()));
    stream(rank).copy(numbers.data(), tensor.data, tensor.bytes());
    stream(rank).synchronize();
    return numbers;
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
    if (dtype == DType::f16) {
      std::uint16_t half = 0;
      std::memcpy(&half, raw + 2 * i, 2);
      return test::from_half(half);
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
      } else if (tensor.dtype == DType::f16) {
        const std::uint16_t half = test::to_half(values[i]);
        std::memcpy(raw.data() + 2 * i, &half, 2);
      } else {
        std::memcpy(raw.data() + bytes * i, reinterpret_cast<const char*>(&values[i]) + 4 - bytes, bytes);
      }
    }
    stream(rank).copy(tensor.data, raw.data(), raw.size());
    stream(rank).synchronize();
  }
};

bool have_gpu() { return test::needs_gpus(cuda_device_count()); }

// Multiples of 1/8 below 16, which bf16 and f16 can hold, and whose sums of eight are exact.
std::vector<float> random_eighths(std::int64_t count, std::mt19937& random) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 127) - 63) / 8;
  return values;
}

struct Case {
  std::int64_t rows, cols;
  DType dtype;
};

const std::vector<Case> cases{{7, 24, DType::f32},     {64, 5, DType::f32},     {1000, 512, DType::bf16}, {13, 6, DType::bf16},
                              {9, 3, DType::bf16},     {5000, 128, DType::f32}, {2, 64, DType::bf16},     {77, 10, DType::f64},
                              {1000, 512, DType::f16}, {13, 6, DType::f16}};

// The inputs of the ranks' collectives, and the results that they must give.
struct CollectiveTensors {
  std::vector<float> sum, largest, gathered;
  std::vector<Tensor> full, shard, reduced, wide, maxima, sums;  // by rank

  CollectiveTensors(Ranks& ranks, int size, const Case& c, std::mt19937& random)
      : sum(static_cast<std::size_t>(c.rows * c.cols), 0.0F), largest(sum.size(), -100.0F) {
    const RowSplit split(c.rows, size);
    for (int rank = 0; rank < size; ++rank) {
      const std::vector<float> input = random_eighths(c.rows * c.cols, random);
      for (std::size_t i = 0; i < sum.size(); ++i) {
        sum[i] += input[i];
        largest[i] = std::max(largest[i], input[i]);
      }
      const auto begin = input.begin() + split.begin(rank) * c.cols, end = input.begin() + split.end(rank) * c.cols;
      gathered.insert(gathered.end(), begin, end);
      const Shape part{split.count(rank), c.cols}, whole{c.rows, c.cols};
      full.push_back(ranks.make(rank, whole, c.dtype, input));
      shard.push_back(ranks.make(rank, part, c.dtype, std::vector<float>(begin, end)));
      reduced.push_back(ranks.make(rank, part, c.dtype));
      wide.push_back(ranks.make(rank, part, c.dtype == DType::f64 ? DType::f64 : DType::f32));
      sums.push_back(ranks.make(rank, whole, c.dtype, input));
      maxima.push_back(ranks.make(rank, whole, c.dtype, input));
    }
  }
};

// Equal up to one rounding of the exact value.
bool are_close(const std::vector<float>& a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::fabs(a[i] - b[i]) > std::fabs(b[i]) / 256) return false;
  }
  return a.size() == b.size();
}

void check_collectives(Ranks& ranks, int size, const Case& c, std::mt19937& random) {
  INFO(size << " ranks, " << c.rows << " x " << c.cols << " " << to_string(c.dtype));
  const CollectiveTensors t(ranks, size, c, random);
  ranks.run([&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    for (int round = 0; round < 3; ++round) {
      ranks.group(rank).reduce_scatter(ranks.stream(rank), t.full[r], t.reduced[r]);
      ranks.group(rank).reduce_scatter(ranks.stream(rank), t.full[r], t.wide[r]);
    }
    ranks.group(rank).all_gather(ranks.stream(rank), t.shard[r], t.full[r]);
    ranks.group(rank).all_reduce(ranks.stream(rank), t.sums[r], Reduction::sum);
    ranks.group(rank).all_reduce(ranks.stream(rank), t.maxima[r], Reduction::max);
  });
  const RowSplit split(c.rows, size);
  for (int rank = 0; rank < size; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    const std::vector<float> own(t.sum.begin() + split.begin(rank) * c.cols, t.sum.begin() + split.end(rank) * c.cols);
    // Double parentheses keep Catch from printing every element on a difference.
    CHECK((ranks.get(rank, t.wide[r]) == own));
    CHECK((ranks.get(rank, t.full[r]) == t.gathered));
    CHECK((ranks.get(rank, t.maxima[r]) == t.largest));
    if (size_of(c.dtype) != 2) {
      CHECK((ranks.get(rank, t.reduced[r]) == own));
      CHECK((ranks.get(rank, t.sums[r]) == t.sum));
    } else {
      CHECK(are_close(ranks.get(rank, t.reduced[r]), own));
      CHECK(are_close(ranks.get(rank, t.sums[r]), t.sum));
    }
  }
}

TEST_CASE("GPU collectives agree with sums over the ranks", "[gpu]") {
  if (!have_gpu()) return;
  for (const int size : {1, 2, 4}) {
    std::mt19937 random(static_cast<unsigned>(size));
    Ranks ranks(size);
    for (const Case& c : cases) check_collectives(ranks, size, c, random);
  }
}

// Draws the number of rows that each rank has for each other one, some of them 0.
std::vector<std::vector<std::int32_t>> random_offsets(int size, std::mt19937& random) {
  std::vector<std::vector<std::int32_t>> offsets;
  for (int rank = 0; rank < size; ++rank) {
    std::vector<std::int32_t>& own = offsets.emplace_back(1, 0);
    for (int to = 0; to < size; ++to) own.push_back(own.back() + static_cast<std::int32_t>(random() % 3 * (random() % 300)));
  }
  return offsets;
}

// The rows of two tensors that ranks exchange: of `cols` columns, and of one more, the latter from the last to the first.
void check_exchange(Ranks& ranks, std::int64_t cols, DType dtype, std::mt19937& random) {
  const int size = ranks.size();
  INFO(size << " ranks, rows of " << cols << " " << to_string(dtype));
  const std::int64_t most = 600, all = most * size;
  const auto offsets = random_offsets(size, random);
  std::vector<RowExchange> exchanges;
  std::vector<std::vector<std::vector<float>>> sent;  // by rank and tensor
  for (int rank = 0; rank < size; ++rank) {
    RowExchange& own = exchanges.emplace_back();
    own.offsets = ranks.make_numbers(rank, offsets[static_cast<std::size_t>(rank)]);
    own.received = ranks.make_numbers(rank, std::vector<std::int32_t>(static_cast<std::size_t>(size) + 1, -1));
    own.most = most;
    sent.emplace_back();
    std::vector<std::int32_t> backwards(static_cast<std::size_t>(all));
    for (std::size_t row = 0; row < backwards.size(); ++row)
      backwards[row] = static_cast<std::int32_t>(all) - 1 - static_cast<std::int32_t>(row);
    for (const std::int64_t columns : {cols, cols + 1}) {
      sent.back().push_back(random_eighths(all * columns, random));
      own.rows.push_back(
          {ranks.make(rank, {all, columns}, dtype, sent.back().back()), ranks.make(rank, {all, columns}, dtype)});
    }
    own.rows.back().order = ranks.make_numbers(rank, backwards);
  }
  ranks.run([&](int rank) {
    for (int round = 0; round < 3; ++round)
      ranks.group(rank).all_to_all(ranks.stream(rank), exchanges[static_cast<std::size_t>(rank)]);
  });
  for (std::size_t rank = 0; rank < exchanges.size(); ++rank) {
    std::vector<std::int32_t> received{0};
    std::vector<std::vector<float>> expected(2);
    for (std::size_t peer = 0; peer < exchanges.size(); ++peer) {
      const std::int32_t begin = offsets[peer][rank], end = offsets[peer][rank + 1];
      received.push_back(received.back() + end - begin);
      for (std::size_t i = 0; i < 2; ++i) {
        const auto columns = static_cast<std::ptrdiff_t>(cols) + static_cast<std::ptrdiff_t>(i);
        for (std::int64_t row = begin; row < end; ++row) {
          const auto first = sent[peer][i].begin() + (i == 0 ? row : all - 1 - row) * columns;
          expected[i].insert(expected[i].end(), first, first + columns);
        }
      }
    }
    CHECK(ranks.get_numbers(static_cast<int>(rank), exchanges[rank].received) == received);
    for (std::size_t i = 0; i < 2; ++i) {
      std::vector<float> found = ranks.get(static_cast<int>(rank), exchanges[rank].rows[i].target);
      found.resize(expected[i].size());
      CHECK((found == expected[i]));
    }
  }
}

TEST_CASE("GPUs exchange rows whose numbers only they know", "[gpu]") {
  if (!have_gpu()) return;
  for (const int size : {1, 2, 4}) {
    std::mt19937 random(static_cast<unsigned>(size));
    Ranks ranks(size);
    for (const auto& [cols, dtype] : {std::pair{7, DType::bf16}, {1, DType::bf16}, {3, DType::f32}, {63, DType::f32}})
      check_exchange(ranks, cols, dtype, random);
  }
}

// Tensors of [rows, cols] that ranks move in pieces.
struct MovedTensors {
  static constexpr std::int64_t rows = 1001, cols = 96;
  std::vector<std::vector<float>> inputs;
  std::vector<Tensor> source, copied, shard, gathered, used, made, received;  // by rank

  MovedTensors(Ranks& ranks, int size) {
    std::mt19937 random(static_cast<unsigned>(size));
    const RowSplit split(rows, size);
    for (int rank = 0; rank < size; ++rank) {
      const Shape whole{rows, cols}, part{split.count(rank), cols};
      inputs.push_back(random_eighths(rows * cols, random));
      const std::vector<float>& input = inputs.back();
      source.push_back(ranks.make(rank, whole, DType::f32, input));
      shard.push_back(ranks.make(rank, part, DType::f32,
                                 {input.begin() + split.begin(rank) * cols, input.begin() + split.end(rank) * cols}));
      for (auto* tensors : {&gathered, &used, &made, &copied}) tensors->push_back(ranks.make(rank, whole, DType::f32));
      received.push_back(ranks.make(rank, {size, split.count(rank), cols}, DType::f32));
    }
  }
  // Returns the same rows of every rank's input, one rank after another.
  std::vector<float> rows_of(const std::function<std::pair<std::int64_t, std::int64_t>(int rank)>& range) const {
    std::vector<float> all;
    for (std::size_t peer = 0; peer < inputs.size(); ++peer) {
      const auto [begin, end] = range(static_cast<int>(peer));
      all.insert(all.end(), inputs[peer].begin() + begin * cols, inputs[peer].begin() + end * cols);
    }
    return all;
  }
};

// This and the next function rewrite their tensors at once: nobody may still be reading them.
void gather_in_pieces(Ranks& ranks, int rank, const RowSplit& split, const MovedTensors& t, const Pass& meanwhile) {
  const auto r = static_cast<std::size_t>(rank);
  Stream& stream = ranks.stream(rank);
  const auto copy = [&](const Tensor& target, const Tensor& from) { stream.copy(target.data, from.data, from.bytes()); };
  stream.zero(t.gathered[r]);
  const auto use = [&](std::int64_t begin, std::int64_t end) {
    const bool own = begin == split.begin(rank);
    copy(t.used[r].row_range(begin, end), own ? t.shard[r] : t.gathered[r].row_range(begin, end));
  };
  ranks.group(rank).in_pieces()->gather(stream, t.shard[r], t.gathered[r], split, use, meanwhile);
  stream.zero(t.shard[r]);
  copy(t.shard[r], t.gathered[r].row_range(split.begin(rank), split.end(rank)));
}

void exchange_in_pieces(Ranks& ranks, int rank, const RowSplit& split, const MovedTensors& t, const Pass& meanwhile) {
  const auto r = static_cast<std::size_t>(rank);
  Stream& stream = ranks.stream(rank);
  const auto copy = [&](const Tensor& target, const Tensor& from) { stream.copy(target.data, from.data, from.bytes()); };
  stream.zero(t.received[r]);
  ranks.group(rank).in_pieces()->exchange(
      stream, t.made[r], t.received[r],
      [&](std::int64_t begin, std::int64_t end) { copy(t.made[r].row_range(begin, end), t.source[r].row_range(begin, end)); },
      [&] {
        copy(t.copied[r], t.source[r]);
        meanwhile();
      });
  copy(t.received[r].row_range(rank, rank + 1), t.made[r].row_range(split.begin(rank), split.end(rank)));
  stream.zero(t.made[r]);
}

TEST_CASE("GPUs move tensors in pieces overlapped with the work on them, one or two at a time", "[gpu]") {
  if (!have_gpu()) return;
  constexpr int rounds = 6;
  for (const int size : {2, 3, 4})
    for (const bool two : {false, true}) {
      const RowSplit split(MovedTensors::rows, size);
      Ranks ranks(size);
      const MovedTensors t(ranks, size);
      const auto gathers = [&](int rank, const Pass& pass) {
        for (int round = 0; round < rounds; ++round) gather_in_pieces(ranks, rank, split, t, pass);
      };
      const auto exchanges = [&](int rank, int count, const Pass& pass) {
        for (int round = 0; round < count; ++round) exchange_in_pieces(ranks, rank, split, t, pass);
      };
      ranks.run([&](int rank) {
        if (two) {
          in_turns([&](const Pass& pass) { gathers(rank, pass); },
                   [&](const Pass& pass) { exchanges(rank, rounds + 2, pass); });
        } else {
          gathers(rank, [] {});
          exchanges(rank, rounds, [] {});
        }
      });
      const auto all_rows = t.rows_of([&](int peer) { return std::pair(split.begin(peer), split.end(peer)); });
      for (int rank = 0; rank < size; ++rank) {
        INFO("rank " << rank << " of " << size << ", two at a time " << two);
        const auto r = static_cast<std::size_t>(rank);
        const auto own_rows = t.rows_of([&](int) { return std::pair(split.begin(rank), split.end(rank)); });
        CHECK((ranks.get(rank, t.gathered[r]) == all_rows));
        CHECK((ranks.get(rank, t.used[r]) == all_rows));
        CHECK((ranks.get(rank, t.received[r]) == own_rows));
        CHECK((ranks.get(rank, t.copied[r]) == t.inputs[r]));
      }
    }
}

TEST_CASE("GPUs gather runs of unequal length in pieces", "[gpu]") {
  if (!have_gpu()) return;
  constexpr std::int64_t total = 3000;
  std::mt19937 random(7);
  const std::vector<float> whole = random_eighths(total, random);
  const RowSplit runs({0, 1000, 1000, total});  // the second rank has none
  Ranks ranks(3);
  std::vector<Tensor> shards, gathered;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    shards.push_back(
        ranks.make(rank, {runs.count(rank)}, DType::bf16, {whole.begin() + runs.begin(rank), whole.begin() + runs.end(rank)}));
    gathered.push_back(ranks.make(rank, {total}, DType::bf16));
  }
  ranks.run([&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    ranks.group(rank).in_pieces()->gather(ranks.stream(rank), shards[r], gathered[r], runs, [](std::int64_t, std::int64_t) {},
                                          {});
  });
  for (int rank = 0; rank < ranks.size(); ++rank) CHECK((ranks.get(rank, gathered[static_cast<std::size_t>(rank)]) == whole));
}

TEST_CASE("GPUs pass tensors on in a ring, also between their other collectives", "[gpu]") {
  if (!have_gpu()) return;
  constexpr std::int64_t count = 100'003;
  for (const int size : {1, 2, 3, 4}) {
    std::mt19937 random(static_cast<unsigned>(size));
    Ranks ranks(size);
    std::vector<std::vector<float>> values;
    std::vector<Tensor> here, coming, gathered;
    for (int rank = 0; rank < size; ++rank) {
      values.push_back(random_eighths(count, random));
      here.push_back(ranks.make(rank, {1, count}, DType::bf16, values.back()));
      coming.push_back(ranks.make(rank, {1, count}, DType::bf16));
      gathered.push_back(ranks.make(rank, {size, count}, DType::bf16));
    }
    constexpr int rounds = 7;
    ranks.run([&](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      const RowSplit rows(size, size);
      for (int round = 0; round < rounds; ++round) {  // written again at once: nobody may still be reading
        const auto& [from, to] = round % 2 == 0 ? std::tie(here[r], coming[r]) : std::tie(coming[r], here[r]);
        ranks.group(rank).shift(ranks.stream(rank), from, to);
        ranks.stream(rank).zero(from);
        if (round % 3 == 0)
          ranks.group(rank).in_pieces()->gather(ranks.stream(rank), to, gathered[r], rows, [](std::int64_t, std::int64_t) {},
                                                {});
      }
    });
    for (int rank = 0; rank < size; ++rank) {
      INFO("rank " << rank << " of " << size);
      const auto r = static_cast<std::size_t>(rank);
      const auto owner = [&](int at) { return static_cast<std::size_t>(((at - rounds) % size + size) % size); };
      CHECK((ranks.get(rank, coming[r]) == values[owner(rank)]));
      std::vector<float> all;
      for (int peer = 0; peer < size; ++peer) all.insert(all.end(), values[owner(peer)].begin(), values[owner(peer)].end());
      CHECK((ranks.get(rank, gathered[r]) == all));
    }
  }
}

TEST_CASE("aborting a group of GPUs ends the waiting of its host threads", "[gpu]") {
  if (!have_gpu()) return;
  Ranks ranks(2);
  const Tensor shard = ranks.make(0, {10, 4}, DType::f32, std::vector<float>(40, 1.0F));
  const Tensor full = ranks.make(0, {20, 4}, DType::f32);
  std::thread waiting([&] {  // rank 1 never arrives
    ranks.group(0).in_pieces()->gather(ranks.stream(0), shard, full, RowSplit(20, 2), [](std::int64_t, std::int64_t) {}, {});
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
  std::thread waiting([&] {  // rank 1 never arrives; ranks that share a GPU wait here
    ranks.group(0).all_reduce(ranks.stream(0), tensor, Reduction::sum);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ranks.group(1).abort(std::make_exception_ptr(Error(ErrorKind::aborted, "rank 1 is gone")));
  waiting.join();
  CHECK_THROWS_WITH(ranks.stream(0).synchronize(), "rank 1 is gone");
  ranks.group(0).all_reduce(ranks.stream(1), tensor, Reduction::sum);
  CHECK_THROWS_WITH(ranks.stream(1).synchronize(), "rank 1 is gone");
}

}  // namespace
}  // namespace pipetrain
