#include "comm/nccl/nccl_group.hpp"

#include <algorithm>
#include <mutex>
#include <set>
#include <vector>

#include "comm/cuda/cuda_rank_sum.hpp"
#include "comm/cuda/row_slots.hpp"
#include "comm/nccl/nccl_transport.hpp"
#include "core/cuda/cuda_stream.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

constexpr std::int64_t unit_bytes = 16;  // parts of tensors are aligned to it
// The bytes that a rank receives of all peers at a time; one such set is added while the next one arrives.
constexpr std::int64_t most_chunk_bytes = std::int64_t{32} << 20, set_bytes = std::int64_t{64} << 20;
constexpr int sets = 2;

// Returns the bytes that a rank receives of each peer at a time.
std::int64_t chunk_of(int ranks) { return std::min(most_chunk_bytes, set_bytes / ranks / unit_bytes * unit_bytes); }

// The bytes of a tensor that one rank adds.
struct Part {
  std::int64_t begin = 0, end = 0;
  std::size_t bytes() const { return static_cast<std::size_t>(end - begin); }
};

std::vector<Part> row_parts(const Tensor& full, const RowSplit& rows) {
  const std::int64_t row_bytes = full.cols() * static_cast<std::int64_t>(size_of(full.dtype));
  std::vector<Part> parts;
  for (int rank = 0; rank < rows.ranks(); ++rank) parts.push_back({rows.begin(rank) * row_bytes, rows.end(rank) * row_bytes});
  return parts;
}
std::vector<Part> even_parts(const Tensor& tensor, int ranks) {
  const auto bytes = static_cast<std::int64_t>(tensor.bytes());
  const RowSplit units((bytes + unit_bytes - 1) / unit_bytes, ranks);
  std::vector<Part> parts;
  for (int rank = 0; rank < ranks; ++rank)
    parts.push_back({std::min(units.begin(rank) * unit_bytes, bytes), std::min(units.end(rank) * unit_bytes, bytes)});
  return parts;
}

class PointToPointGroup final : public NcclGroup {
 public:
  PointToPointGroup(std::shared_ptr<NcclComm> comm, Device& device, GroupUse use)
      : comm_(std::move(comm)),
        blocks_(use == GroupUse::alone ? 32 : 16),  // as in cuda_group: the other multiprocessors are left to matrix products
        chunk_(chunk_of(size())),
        staging_(device.allocate(nccl_group_memory(size()), "pieces of sums over ranks, in flight")),
        sums_(device, "sums over ranks") {
    for (int set = 0; set < sets; ++set) {
      received_.push_back(device.make_event());
      added_.push_back(device.make_event());
    }
    streams_.insert(&sums_);
  }

  int rank() const override { return comm_->rank(); }
  int size() const override { return comm_->size(); }

  using Group::all_gather, Group::reduce_scatter;

  void all_gather(Stream& stream, const Tensor& shard, const Tensor& full, const RowSplit& rows) override {
    CudaStream* on = enter(stream);
    if (on == nullptr) return;
    const std::vector<Part> parts = row_parts(full, rows);
    const Part own = parts[index(rank())];
    if (at(full, own) != shard.data) on->copy(at(full, own), shard.data, own.bytes());
    swap(*on, [&](int peer) {
      comm_->send(shard.data, own.bytes(), peer);
      comm_->receive(at(full, parts[index(peer)]), parts[index(peer)].bytes(), peer);
    });
  }

  void reduce_scatter(Stream& stream, const Tensor& full, const Tensor& shard, const RowSplit& rows) override {
    CudaStream* on = enter(stream);
    if (on == nullptr) return;
    const std::vector<Part> parts = row_parts(full, rows);
    const auto wider = static_cast<std::int64_t>(size_of(shard.dtype) / size_of(full.dtype));
    const Part own = parts[index(rank())];
    const std::int64_t last = rounds(parts);
    for (std::int64_t k = 0; k < last; ++k) {
      if (k >= sets) on->wait(*added_[set_of(k)]);
      comm_->transfer(*on, [&] { scatter(full, parts, k); });
      const Part part = chunk(own, k);
      void* out = static_cast<char*>(shard.data) + (part.begin - own.begin) * wider;
      add_after(*on, k, {full, part, out, shard.dtype, Reduction::sum});
    }
    for (std::int64_t k = std::max<std::int64_t>(last - sets, 0); k < last; ++k) on->wait(*added_[set_of(k)]);
  }

  // Three rounds run at once: the k-th chunk's pieces arrive and the results of chunk k - 2 leave, while chunk k - 1 is
  // added on a separate stream.
  void all_reduce(Stream& stream, const Tensor& tensor, Reduction reduction) override {
    CudaStream* on = enter(stream);
    if (on == nullptr) return;
    const std::vector<Part> parts = even_parts(tensor, size());
    const std::int64_t last = rounds(parts);
    for (std::int64_t k = 0; k < last + sets; ++k) {
      if (k >= last && k < sets) continue;
      if (k >= sets) on->wait(*added_[set_of(k)]);
      comm_->transfer(*on, [&] {
        if (k >= sets) gather(tensor, parts, k - sets);
        if (k < last) scatter(tensor, parts, k);
      });
      if (k >= last) continue;
      const Part part = chunk(parts[index(rank())], k);
      add_after(*on, k, {tensor, part, at(tensor, part), tensor.dtype, reduction});
    }
  }

  void exchange(Stream& stream, const Tensor& full, const Tensor& received, const RowSplit& rows) override {
    CudaStream* on = enter(stream);
    if (on == nullptr) return;
    const std::vector<Part> parts = row_parts(full, rows);
    const Part own = parts[index(rank())];
    const auto from = [&](int member) { return static_cast<char*>(received.data) + index(member) * own.bytes(); };
    on->copy(from(rank()), at(full, own), own.bytes());
    swap(*on, [&](int peer) {
      comm_->send(at(full, parts[index(peer)]), parts[index(peer)].bytes(), peer);
      comm_->receive(from(peer), own.bytes(), peer);
    });
  }

  void shift(Stream& stream, const Tensor& source, const Tensor& target) override {
    CudaStream* on = enter(stream);
    if (on == nullptr) return;
    if (size() == 1) return on->copy(target.data, source.data, source.bytes());
    comm_->transfer(*on, [&] {
      comm_->send(source.data, source.bytes(), (rank() + 1) % size());
      comm_->receive(target.data, target.bytes(), (rank() + size() - 1) % size());
    });
  }

  // NCCL's transfers have sizes that the host knows: each rank sends slots that have memory for the most rows.
  void all_to_all(Stream& stream, const RowExchange& exchange) override {
    CudaStream* on = enter(stream);
    if (on == nullptr) return;
    exchange_counts(*on, exchange);
    for (const RowExchange::Rows& rows : exchange.rows) {
      const std::int64_t row_bytes = rows.source.cols() * static_cast<std::int64_t>(size_of(rows.source.dtype));
      if (row_bytes > chunk_)
        throw Error(ErrorKind::internal, "rows of " + std::to_string(row_bytes) + " bytes are too long for an exchange");
      const std::int64_t together = chunk_ / row_bytes;
      for (std::int64_t first = 0; first < exchange.most; first += together) {
        const std::int64_t count = std::min(together, exchange.most - first);
        RowSlots slots{sending(0), sending(rank()), chunk_, rank(), first, count};
        copy_into_slots(*on, rows, exchange.offsets, slots);
        swap_slots(*on, chunk_, static_cast<std::size_t>(count * row_bytes));
        slots.slots = receiving(0);
        copy_out_of_slots(*on, slots, rows.target, exchange.received);
      }
    }
  }

  void forget(Stream& stream) override {
    const std::lock_guard lock(mutex_);
    streams_.erase(&cuda_stream(stream));
  }

  void abort(std::exception_ptr cause) override {
    {
      const std::lock_guard lock(mutex_);
      if (cause_) return;
      cause_ = cause;
      for (Stream* stream : streams_) stream->fail(cause);
    }
    NcclComm::abort({comm_});
  }

 private:
  std::shared_ptr<NcclComm> comm_;
  int blocks_;
  std::int64_t chunk_;  // bytes
  Buffer staging_;      // a chunk of each rank, `sets` times
  CudaStream sums_;
  std::vector<std::shared_ptr<Event>> received_, added_;  // by set
  std::mutex mutex_;
  std::exception_ptr cause_;
  std::set<CudaStream*> streams_;

  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  static char* at(const Tensor& tensor, const Part& part) { return static_cast<char*>(tensor.data) + part.begin; }
  static std::size_t set_of(std::int64_t k) { return static_cast<std::size_t>(k % sets); }
  char* staging(std::int64_t k, int peer) const {
    return static_cast<char*>(staging_.data()) + (k % sets * size() + peer) * chunk_;
  }
  // The slots of an exchange of rows.
  char* sending(int peer) const { return staging(0, peer); }
  char* receiving(int peer) const { return staging(1, peer); }
  // One transfer with every peer at once.
  template <class Work>
  void swap(CudaStream& on, const Work& send_and_receive) {
    comm_->transfer(on, [&] {
      for (int peer = 0; peer < size(); ++peer)
        if (peer != rank()) send_and_receive(peer);
    });
  }
  // distance: the bytes from one rank's slot to the next.
  void swap_slots(CudaStream& on, std::int64_t distance, std::size_t bytes) {
    swap(on, [&](int peer) {
      comm_->send(sending(0) + peer * distance, bytes, peer);
      comm_->receive(receiving(0) + peer * distance, bytes, peer);
    });
  }
  void exchange_counts(CudaStream& on, const RowExchange& exchange) {
    const auto counts = [&](char* memory) { return Tensor{memory, {size()}, DType::i32}; };
    count_rows(on, exchange.offsets, counts(sending(0)));
    swap_slots(on, sizeof(std::int32_t), sizeof(std::int32_t));
    const Tensor own = counts(sending(0)).row_range(rank(), rank() + 1);
    add_up_counts(on, counts(receiving(0)), rank(), own, exchange.received);
  }

  // Returns the k-th chunk of a part.
  Part chunk(const Part& part, std::int64_t k) const {
    return {std::min(part.begin + k * chunk_, part.end), std::min(part.begin + (k + 1) * chunk_, part.end)};
  }

  // Returns null where nothing may be enqueued any more.
  CudaStream* enter(Stream& stream) {
    CudaStream& on = cuda_stream(stream);
    std::exception_ptr cause;
    {
      const std::lock_guard lock(mutex_);
      streams_.insert(&on);
      cause = cause_;
    }
    if (cause) on.fail(cause);
    return on.begin() ? &on : nullptr;
  }

  std::int64_t rounds(const std::vector<Part>& parts) const {
    std::int64_t most = 0;
    for (const Part& part : parts) most = std::max(most, (part.end - part.begin + chunk_ - 1) / chunk_);
    return most;
  }

  // Sends every rank's k-th chunk of every part to the part's owner. Call it within a transfer, like gather().
  void scatter(const Tensor& tensor, const std::vector<Part>& parts, std::int64_t k) {
    const Part own = chunk(parts[index(rank())], k);
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      const Part theirs = chunk(parts[index(peer)], k);
      comm_->send(at(tensor, theirs), theirs.bytes(), peer);
      comm_->receive(staging(k, peer), own.bytes(), peer);
    }
  }
  // Sends the k-th chunk of every part from its owner to all others.
  void gather(const Tensor& tensor, const std::vector<Part>& parts, std::int64_t k) {
    const Part own = chunk(parts[index(rank())], k);
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      const Part theirs = chunk(parts[index(peer)], k);
      comm_->send(at(tensor, own), own.bytes(), peer);
      comm_->receive(at(tensor, theirs), theirs.bytes(), peer);
    }
  }

  struct Sum {
    const Tensor& tensor;
    Part part;  // a chunk of this rank's own part
    void* out;
    DType out_dtype;
    Reduction reduction;
  };
  // Adds the k-th chunk of all ranks once `on` has received it.
  void add_after(CudaStream& on, std::int64_t k, const Sum& wanted) {
    on.record(*received_[set_of(k)]);
    sums_.wait(*received_[set_of(k)]);
    if (wanted.part.bytes() > 0) add(k, wanted);
    sums_.record(*added_[set_of(k)]);
  }
  void add(std::int64_t k, const Sum& wanted) {
    RankSum sum;
    for (int peer = 0; peer < size(); ++peer) {
      sum.pieces.push_back(peer == rank() ? at(wanted.tensor, wanted.part) : staging(k, peer));
    }
    sum.count = static_cast<std::int64_t>(wanted.part.bytes() / size_of(wanted.tensor.dtype));
    sum.dtype = wanted.tensor.dtype;
    sum.out_dtype = wanted.out_dtype;
    sum.reduction = wanted.reduction;
    sum.most_blocks = blocks_;
    // The sum goes to this rank's own staging buffer, which is unused: it must not overwrite a piece that is still to arrive.
    const bool aside = size() > max_ranks_at_once;
    sum.out = aside ? staging(k, rank()) : wanted.out;
    enqueue_rank_sum(sums_, sum);
    if (aside) sums_.copy(wanted.out, sum.out, wanted.part.bytes());
  }
};

}  // namespace

std::shared_ptr<NcclGroup> make_nccl_group(std::shared_ptr<NcclComm> comm, Device& device, GroupUse use) {
  return std::make_shared<PointToPointGroup>(std::move(comm), device, use);
}

std::size_t nccl_group_memory(int ranks) { return static_cast<std::size_t>(sets * ranks * chunk_of(ranks)); }

// 32 also beside a backward: on two H200s, fewer blocks delayed the end of the step by more than they left to its
// products (0.98 of one process's speed with 32, 0.95 with 16, 0.90 with 8).
int nccl_group_blocks() { return 32; }

}  // namespace pipetrain
