#include "comm/nccl_group.hpp"

#include <algorithm>
#include <mutex>
#include <set>
#include <vector>

#include "comm/cuda_rank_sum.hpp"
#include "core/cuda_stream.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

// What a rank receives of each peer at a time.
constexpr std::int64_t chunk_bytes = std::int64_t{16} << 20;
constexpr std::int64_t unit_bytes = 16;  // parts of tensors start at multiples of it

// Bytes of a tensor that one rank adds up.
struct Part {
  std::int64_t begin = 0, end = 0;
  // The k-th chunk of it.
  Part chunk(std::int64_t k) const {
    return {std::min(begin + k * chunk_bytes, end), std::min(begin + (k + 1) * chunk_bytes, end)};
  }
  std::size_t bytes() const { return static_cast<std::size_t>(end - begin); }
  std::int64_t chunks() const { return (end - begin + chunk_bytes - 1) / chunk_bytes; }
};

class NcclGroup final : public Group {
 public:
  NcclGroup(std::shared_ptr<NcclComm> comm, Device& device, GroupUse use)
      : comm_(std::move(comm)),
        blocks_(nccl_group_blocks(use)),
        staging_(device.allocate(static_cast<std::size_t>(size()) * chunk_bytes, "pieces of sums over ranks, on their way")) {}
  ~NcclGroup() override { NcclGroup::forget_streams(); }

  int rank() const override { return comm_->rank(); }
  int size() const override { return comm_->size(); }

  void all_gather(Stream& stream, const Tensor& shard, const Tensor& full) override {
    CudaStream* on = enter(stream);
    if (on == nullptr) return;
    const std::vector<Part> parts = row_parts(full);
    const Part own = parts[index(rank())];
    on->copy(at(full, own), shard.data, own.bytes());
    comm_->transfer(*on, [&] {
      for (int peer = 0; peer < size(); ++peer) {
        if (peer == rank()) continue;
        comm_->send(shard.data, own.bytes(), peer);
        comm_->receive(at(full, parts[index(peer)]), parts[index(peer)].bytes(), peer);
      }
    });
  }

  void reduce_scatter(Stream& stream, const Tensor& full, const Tensor& shard) override {
    CudaStream* on = enter(stream);
    if (on == nullptr) return;
    const std::vector<Part> parts = row_parts(full);
    const auto wider = static_cast<std::int64_t>(size_of(shard.dtype) / size_of(full.dtype));
    const Part own = parts[index(rank())];
    for (std::int64_t k = 0; k < rounds(parts); ++k) {
      comm_->transfer(*on, [&] { scatter(full, parts, k); });
      const Part part = own.chunk(k);
      add(*on, full, part, static_cast<char*>(shard.data) + (part.begin - own.begin) * wider, shard.dtype, Reduction::sum);
    }
  }

  // While one chunk's results go out, the next one's pieces come in.
  void all_reduce(Stream& stream, const Tensor& tensor, Reduction reduction) override {
    CudaStream* on = enter(stream);
    if (on == nullptr) return;
    const std::vector<Part> parts = even_parts(tensor);
    const std::int64_t last = rounds(parts);
    for (std::int64_t k = 0; k <= last; ++k) {
      comm_->transfer(*on, [&] {
        if (k > 0) gather(tensor, parts, k - 1);
        if (k < last) scatter(tensor, parts, k);
      });
      if (k == last) break;
      const Part part = parts[index(rank())].chunk(k);
      add(*on, tensor, part, at(tensor, part), tensor.dtype, reduction);
    }
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
  Buffer staging_;  // a chunk of each rank
  std::mutex mutex_;
  std::exception_ptr cause_;
  std::set<CudaStream*> streams_;

  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  static char* at(const Tensor& tensor, const Part& part) { return static_cast<char*>(tensor.data) + part.begin; }
  char* staging(int peer) const { return static_cast<char*>(staging_.data()) + peer * chunk_bytes; }

  // Null where nothing is to be enqueued any more.
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
  void forget_streams() {
    const std::lock_guard lock(mutex_);
    streams_.clear();
  }

  std::vector<Part> row_parts(const Tensor& full) const {
    const RowSplit rows(full.rows(), size());
    const std::int64_t row_bytes = full.cols() * static_cast<std::int64_t>(size_of(full.dtype));
    std::vector<Part> parts;
    for (int rank = 0; rank < size(); ++rank) parts.push_back({rows.begin(rank) * row_bytes, rows.end(rank) * row_bytes});
    return parts;
  }
  std::vector<Part> even_parts(const Tensor& tensor) const {
    const auto bytes = static_cast<std::int64_t>(tensor.bytes());
    const RowSplit units((bytes + unit_bytes - 1) / unit_bytes, size());
    std::vector<Part> parts;
    for (int rank = 0; rank < size(); ++rank) {
      parts.push_back({std::min(units.begin(rank) * unit_bytes, bytes), std::min(units.end(rank) * unit_bytes, bytes)});
    }
    return parts;
  }
  static std::int64_t rounds(const std::vector<Part>& parts) {
    std::int64_t most = 0;
    for (const Part& part : parts) most = std::max(most, part.chunks());
    return most;
  }

  // Every rank's k-th chunk of every part to the part's owner. Within a transfer, as gather().
  void scatter(const Tensor& tensor, const std::vector<Part>& parts, std::int64_t k) {
    const Part own = parts[index(rank())].chunk(k);
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      const Part theirs = parts[index(peer)].chunk(k);
      comm_->send(at(tensor, theirs), theirs.bytes(), peer);
      comm_->receive(staging(peer), own.bytes(), peer);
    }
  }
  // The k-th chunk of every part from its owner to all others.
  void gather(const Tensor& tensor, const std::vector<Part>& parts, std::int64_t k) {
    const Part own = parts[index(rank())].chunk(k);
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      const Part theirs = parts[index(peer)].chunk(k);
      comm_->send(at(tensor, own), own.bytes(), peer);
      comm_->receive(at(tensor, theirs), theirs.bytes(), peer);
    }
  }

  // This rank's chunk of all ranks.
  void add(CudaStream& stream, const Tensor& tensor, const Part& part, void* out, DType out_dtype, Reduction reduction) {
    if (part.bytes() == 0) return;
    RankSum sum;
    for (int peer = 0; peer < size(); ++peer) sum.pieces.push_back(peer == rank() ? at(tensor, part) : staging(peer));
    sum.count = static_cast<std::int64_t>(part.bytes() / size_of(tensor.dtype));
    sum.dtype = tensor.dtype;
    sum.out_dtype = out_dtype;
    sum.reduction = reduction;
    sum.most_blocks = blocks_;
    // In the staging place of its own, which it does not need: what is added must not run into a piece that is still to come.
    const bool aside = size() > max_ranks_at_once;
    sum.out = aside ? staging(rank()) : out;
    enqueue_rank_sum(stream, sum);
    if (aside) stream.copy(out, sum.out, part.bytes());
  }
};

}  // namespace

std::unique_ptr<Group> make_nccl_group(std::shared_ptr<NcclComm> comm, Device& device, GroupUse use) {
  return std::make_unique<NcclGroup>(std::move(comm), device, use);
}

// As cuda_group: what nearly fills the links while the rest of the chip is left to matrix products.
int nccl_group_blocks(GroupUse use) { return use == GroupUse::alone ? 32 : 16; }

}  // namespace pipetrain
