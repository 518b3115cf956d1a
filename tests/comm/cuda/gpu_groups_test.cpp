// Groups of GPUs of different processes: the bits of one process.
#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <thread>

#include "catch.hpp"
#include "comm/cuda/cuda_group.hpp"
#include "comm/cuda/gpu_process.hpp"
#include "comm/cuda/in_turns.hpp"

namespace pipetrain::test {
namespace {

struct Piece {
  std::int64_t rows, cols;
  DType dtype;
};
const std::vector<Piece> pieces{{1000, 33, DType::f32}, {3, 7, DType::f32}, {40000, 64, DType::f32}, {513, 16, DType::bf16},
                                {77, 10, DType::f64},   {1, 1, DType::f32}, {9, 3, DType::bf16}};

std::size_t piece_bytes(const Piece& piece) {
  return align_up(static_cast<std::size_t>(piece.rows * piece.cols) * size_of(piece.dtype));
}

// Parts whose number has no relation to the number of ranks.
RowSplit uneven_rows(std::int64_t rows, int size) {
  std::vector<std::int64_t> cuts;
  for (int rank = 0; rank <= size; ++rank) cuts.push_back(rows * rank * rank / size / size);
  return RowSplit(cuts);
}

// Numbers whose sums depend on the order, for a rank and a piece.
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

// One rank's part of a group, its inputs in one piece of memory, and the results of its collectives.
class GroupRank {
 public:
  // Allocates, and locks, everything before any kernel may wait for its peers.
  GroupRank(Device& device, int rank, int size) : rank_(rank), size_(size), stream_(device.make_stream("sums")) {
    std::size_t bytes = 0;
    for (std::size_t number = 0; number < pieces.size(); ++number) {
      // The last two hold size times the rank's rows, which may exceed the whole by as many rows.
      bytes += 8 * piece_bytes(pieces[number]) + 2 * piece_bytes({size, pieces[number].cols, pieces[number].dtype});
      bytes += 2 * align_up((static_cast<std::size_t>(size) + 1) * sizeof(std::int32_t));
      bytes += align_up(static_cast<std::size_t>(pieces[number].rows) * sizeof(std::int32_t));
      add_exchange(device, number);
      const std::vector<char> input = input_of(pieces[number], rank, number);
      inputs_.push_back(device.allocate_host(input.size(), "a test's input"));
      std::memcpy(inputs_.back().data(), input.data(), input.size());
    }
    memory_ = device.allocate(bytes, "a test's tensors");
    shards_ = device.allocate(bytes, "a test's shards");
  }

  Stream& stream() { return *stream_; }

  // Enqueues every collective on every piece, `rounds` times on the same memory.
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
                   full = place(memory_, at, whole, piece.dtype), uneven = place(memory_, at, whole, piece.dtype),
                   passed = place(memory_, at, whole, piece.dtype);
      const Tensor shard = place(shards_, shard_at, part, piece.dtype), gathered = place(shards_, shard_at, whole, piece.dtype);
      for (int round = 0; round < rounds; ++round) {
        for (const Tensor& tensor : {sums, maxima, full, uneven})
          stream_->copy(tensor.data, inputs_[number].data(), tensor.bytes());
        group.all_reduce(*stream_, sums, Reduction::sum);
        group.all_reduce(*stream_, maxima, Reduction::max);
        group.reduce_scatter(*stream_, full, shard);
        stream_->copy(full.data, shard.data, shard.bytes());
        group.all_gather(*stream_, full.row_range(0, part[0]), gathered);
        const RowSplit rows = uneven_rows(piece.rows, size_);
        const Tensor own = uneven.row_range(rows.begin(rank_), rows.end(rank_));
        group.reduce_scatter(*stream_, uneven, own, rows);
        group.all_gather(*stream_, own, uneven, rows);
        group.shift(*stream_, maxima, passed);
        group.shift(*stream_, uneven, maxima);  // at once: nobody may still be reading it
      }
      results_.insert(results_.end(), {sums, maxima, shard, gathered, uneven, passed});
      const Tensor offsets = place(shards_, shard_at, {size_ + 1}, DType::i32),
                   received = place(shards_, shard_at, {size_ + 1}, DType::i32),
                   order = place(shards_, shard_at, {piece.rows}, DType::i32),
                   rows = place(shards_, shard_at, {piece.rows + size_, piece.cols}, piece.dtype);
      stream_->copy(offsets.data, offsets_[number].data(), offsets.bytes());
      stream_->copy(order.data, orders_[number].data(), order.bytes());
      stream_->zero(rows);
      for (int round = 0; round < rounds; ++round)
        group.all_to_all(*stream_, {{{sums, rows, order}}, offsets, received, piece.rows / size_ + 1});
      const Tensor parts = exchange_parts(group, sums, shard_at, rounds);
      results_.insert(results_.end(), {received, rows, parts});
      if (PiecewiseTransfer* transfer = group.in_pieces()) {
        const Tensor collected = place(memory_, at, whole, piece.dtype), made = place(memory_, at, whole, piece.dtype),
                     received = place(memory_, at, {size_, part[0], piece.cols}, piece.dtype);
        for (int round = 0; round < rounds; ++round) move(*transfer, number, shard, collected, made, received);
        moved_.insert(moved_.end(), {collected, received});
      }
    }
  }

  std::vector<std::vector<char>> results() {
    std::vector<std::vector<char>> all;
    for (const auto* tensors : {&results_, &moved_}) {
      for (const Tensor& tensor : *tensors) {
        all.emplace_back(tensor.bytes());
        stream_->copy(all.back().data(), tensor.data, tensor.bytes());
      }
    }
    stream_->synchronize();
    return all;
  }

 private:
  int rank_, size_;
  std::unique_ptr<Stream> stream_;
  Buffer memory_, shards_;
  // Each rank has fewer rows for some ranks than for others, and sends them from the last to the first.
  void add_exchange(Device& device, std::size_t number) {
    const std::int64_t rows = pieces[number].rows;
    const auto allocate = [&](std::int64_t count) {
      return device.allocate_host(static_cast<std::size_t>(count) * sizeof(std::int32_t), "a test's exchange of rows");
    };
    offsets_.push_back(allocate(size_ + 1));
    orders_.push_back(allocate(rows));
    const RowSplit sent(rows / (1 + rank_ % 2), size_);
    for (int to = 0; to <= size_; ++to)
      static_cast<std::int32_t*>(offsets_.back().data())[to] = static_cast<std::int32_t>(sent.begin(to));
    for (std::int64_t row = 0; row < rows; ++row)
      static_cast<std::int32_t*>(orders_.back().data())[row] = static_cast<std::int32_t>(rows - 1 - row);
  }
  // Exchanges parts of unequal length. Returns those that were received, in the shards' memory from `at` on.
  Tensor exchange_parts(Group& group, const Tensor& full, std::size_t& at, int rounds) {
    const RowSplit parts = uneven_rows(full.rows(), size_);
    const Tensor received{static_cast<char*>(shards_.data()) + at, {size_ * parts.count(rank_), full.cols()}, full.dtype};
    at += align_up(received.bytes());
    for (int round = 0; round < rounds; ++round) group.exchange(*stream_, full, received, parts);
    return received;
  }
  // Gathers the shard, and exchanges the rows of the input.
  void move(PiecewiseTransfer& transfer, std::size_t number, const Tensor& shard, const Tensor& collected, const Tensor& made,
            const Tensor& received) {
    const RowSplit split(collected.rows(), size_);
    const auto* input = static_cast<const char*>(inputs_[number].data());
    stream_->zero(collected);
    stream_->zero(received);
    // The rows that are exchanged are written while the shard is in transfer.
    const auto gather = [&](const Pass& pass) {
      transfer.gather(
          *stream_, shard, collected, split, [](std::int64_t, std::int64_t) {}, pass);
      stream_->copy(collected.row_range(split.begin(rank_), split.end(rank_)).data, shard.data, shard.bytes());
    };
    const auto exchange = [&](const Pass& pass) {
      const auto make = [&](std::int64_t begin, std::int64_t end) {
        const Tensor rows = made.row_range(begin, end);
        const auto before = static_cast<const char*>(rows.data) - static_cast<const char*>(made.data);
        stream_->copy(rows.data, input + before, rows.bytes());
      };
      transfer.exchange(*stream_, made, received, make, pass);
    };
    in_turns(gather, exchange);
    stream_->zero(made);  // at once: nobody may still be reading it
  }

  std::vector<Buffer> offsets_, orders_;  // of exchanged rows
  std::vector<Buffer> inputs_;            // in locked memory: other copies would block the host, and with it other ranks
  std::vector<Tensor> results_, moved_;   // of collectives; of transfers in pieces, which some groups lack
};

// Returns the results of every rank of a group in one process, on one GPU.
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

// Names the results that differ.
std::string differences(const std::vector<std::vector<char>>& found, const std::vector<std::vector<char>>& wanted) {
  std::string names;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] != wanted[i]) names += "result " + std::to_string(i) + "; ";
  }
  return names;
}

}  // namespace

// The work of one process: hidden, started by the cases below.
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
  const auto make = [&] { return transport->group(all, 9, devices, GroupUse::overlaps_compute); };
  if (self->gpus() == 1) {
    CHECK_THROWS_WITH(make(), Catch::Contains("share one GPU"));
    static_cast<void>(self->control().exchange("refused", {}));
    return self->control().leave();
  }
  auto groups = make();
  std::map<int, std::unique_ptr<GroupRank>> ranks;
  for (const auto& [rank, device] : devices) {
    ranks[rank] = std::make_unique<GroupRank>(*device, rank, size);
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

}  // namespace pipetrain::test
