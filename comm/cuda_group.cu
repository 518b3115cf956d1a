#include "comm/cuda_group.hpp"

#include <algorithm>
#include <mutex>
#include <set>
#include <string>

#include "comm/cuda_pieces.hpp"
#include "comm/peer_kernels.cuh"
#include "core/cuda_stream.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

using namespace peer;

// Enough to fill the links, and what nearly fills them while the rest of the chip is left to matrix products.
constexpr int max_blocks = 64, max_blocks_beside = 16;

// What the ranks share.
class Meeting {
 public:
  Meeting(const std::vector<Device*>& devices, int most_blocks) : size_(static_cast<int>(devices.size())) {
    const int first = devices.front()->id().index;
    for (Device* device : devices) {
      check_reach(devices, *device);
      boxes_.push_back(device->allocate(sizeof(Mailbox), "a mailbox of a group of GPUs"));
      cuda_check(cudaMemset(boxes_.back().data(), 0, sizeof(Mailbox)), "clearing a mailbox", device->id().index);
      cuda_check(cudaDeviceSynchronize(), "clearing a mailbox", device->id().index);
    }
    max_blocks_ = std::min(most_blocks, blocks_at_once(devices));
    void* flag = nullptr;
    cuda_check(cudaHostAlloc(&flag, sizeof(int), cudaHostAllocPortable | cudaHostAllocMapped), "making a group of GPUs", first);
    aborted_ = static_cast<int*>(flag);
    *aborted_ = 0;
  }
  ~Meeting() {
    boxes_.clear();  // waits for the kernels
    cudaFreeHost(aborted_);
  }
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  int size() const { return size_; }
  int most_blocks() const { return max_blocks_; }

  Team team(int rank, unsigned call) const {
    Team team{};
    for (std::size_t i = 0; i < boxes_.size(); ++i) team.boxes[i] = static_cast<Mailbox*>(boxes_[i].data());
    team.aborted = aborted_;
    team.rank = rank;
    team.size = size_;
    team.call = call;
    return team;
  }

  // Whether a call may be enqueued on this stream; after an abort it fails instead.
  bool enter(CudaStream& stream) {
    std::exception_ptr cause;
    {
      const std::lock_guard lock(mutex_);
      streams_.insert(&stream);
      cause = cause_;
    }
    if (cause) stream.fail(cause);
    return stream.begin();
  }

  void forget(Stream* stream) {
    const std::lock_guard lock(mutex_);
    streams_.erase(stream);
  }

  void abort(const std::exception_ptr& cause) {
    const std::lock_guard lock(mutex_);
    if (cause_) return;
    cause_ = cause;
    *static_cast<volatile int*>(aborted_) = 1;
    for (Stream* stream : streams_) stream->fail(cause);
  }

 private:
  // The kernels of ranks that share a GPU wait for each other, so all their blocks must find room on it together.
  static int blocks_at_once(const std::vector<Device*>& devices) {
    int least = max_blocks;
    for (const Device* device : devices) {
      int multiprocessors = 0;
      const int index = device->id().index;
      cuda_check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, index), "counting multiprocessors",
                 index);
      const auto sharing =
          std::count_if(devices.begin(), devices.end(), [&](const Device* other) { return other->id() == device->id(); });
      least = std::min(least, multiprocessors / static_cast<int>(sharing));
    }
    return least;
  }

  static void check_reach(const std::vector<Device*>& devices, const Device& device) {
    for (const Device* other : devices) {
      if (other->id() == device.id()) continue;
      int possible = 0;
      cuda_check(cudaDeviceCanAccessPeer(&possible, device.id().index, other->id().index), "asking for peer access",
                 device.id().index);
      if (possible == 0) {
        throw Error(ErrorKind::unavailable, to_string(device.id()) + " cannot reach the memory of " + to_string(other->id()) +
                                                ": choose GPUs of one host with peer access (nvidia-smi topo -p2p r)");
      }
    }
  }

  int size_;
  int max_blocks_ = max_blocks;
  std::vector<Buffer> boxes_;
  int* aborted_ = nullptr;
  std::mutex mutex_;
  std::set<Stream*> streams_;
  std::exception_ptr cause_;
};

// Calls body with a value of the element type.
template <class Body>
void with_element(DType dtype, const char* what, Body body) {
  switch (dtype) {
    case DType::f32:
      return body(float{});
    case DType::bf16:
      return body(__nv_bfloat16{});
    case DType::f64:
      return body(double{});
    default:
      throw Error(ErrorKind::internal, std::string(what) + " of GPUs: not for " + to_string(dtype));
  }
}

bool divides16(const void* data, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && bytes % 16 == 0;
}

template <class T>
using Width = std::integral_constant<int, 16 / static_cast<int>(sizeof(T))>;
using One = std::integral_constant<int, 1>;

class CudaGroup : public Group {
 public:
  CudaGroup(std::shared_ptr<Meeting> meeting, std::shared_ptr<PieceMeeting> piece_meeting, int rank, Device& device)
      : meeting_(std::move(meeting)),
        piece_meeting_(std::move(piece_meeting)),
        pieces_(make_cuda_pieces(piece_meeting_, rank, device)),
        rank_(rank) {}
  ~CudaGroup() override {
    for (Stream* stream : streams_) meeting_->forget(stream);
  }

  int rank() const override { return rank_; }
  int size() const override { return meeting_->size(); }

  void all_gather(Stream& stream, const Tensor& shard, const Tensor& full) override {
    const auto row_bytes = static_cast<std::size_t>(full.cols()) * size_of(full.dtype);
    // The unit must suit every rank's shard, and be the same for all: it follows from the row alone, as tensors are aligned.
    if (row_bytes % 16 == 0) return gather<uint4>(stream, shard, full, row_bytes);
    if (row_bytes % 4 == 0) return gather<unsigned>(stream, shard, full, row_bytes);
    gather<unsigned short>(stream, shard, full, row_bytes);
  }

  void reduce_scatter(Stream& stream, const Tensor& full, const Tensor& shard) override {
    with_element(full.dtype, "reduce_scatter", [&](auto element) {
      using T = decltype(element);
      if (shard.dtype == full.dtype) return scatter<T, T>(stream, full, shard);
      if constexpr (sizeof(T) == 2) {
        if (shard.dtype == DType::f32) return scatter<T, float>(stream, full, shard);
      }
      throw Error(ErrorKind::internal,
                  std::string("reduce_scatter of GPUs: ") + to_string(full.dtype) + " into " + to_string(shard.dtype));
    });
  }

  void all_reduce(Stream& stream, const Tensor& tensor, Reduction reduction) override {
    with_element(tensor.dtype, "all_reduce", [&](auto element) {
      using T = decltype(element);
      const auto run = [&](auto width, auto maximum) {
        constexpr int W = decltype(width)::value;
        const std::int64_t packs = tensor.elements() / W;
        launch(stream, packs / size() + 1, [&](const Team& team, unsigned blocks, cudaStream_t native) {
          all_reduce_kernel<T, W, decltype(maximum)::value>
              <<<blocks, threads, 0, native>>>(team, static_cast<T*>(tensor.data), packs);
        });
      };
      const bool wide = divides16(nullptr, tensor.bytes());
      if (reduction == Reduction::max) return wide ? run(Width<T>{}, std::true_type{}) : run(One{}, std::true_type{});
      return wide ? run(Width<T>{}, std::false_type{}) : run(One{}, std::false_type{});
    });
  }

  PiecewiseTransfer* in_pieces() override { return pieces_.get(); }

  void abort(std::exception_ptr cause) override {
    meeting_->abort(cause);
    pipetrain::abort(*piece_meeting_, cause);
  }

 private:
  std::shared_ptr<Meeting> meeting_;
  std::shared_ptr<PieceMeeting> piece_meeting_;
  std::unique_ptr<PiecewiseTransfer> pieces_;
  int rank_;
  unsigned call_ = 0;
  std::set<Stream*> streams_;

  // work: units for one thread to do.
  template <class Kernel>
  void launch(Stream& stream, std::int64_t work, Kernel kernel) {
    CudaStream& on = cuda_stream(stream);
    streams_.insert(&stream);
    ++call_;  // also when it is not enqueued: ranks must count alike
    if (!meeting_->enter(on)) return;
    const std::int64_t blocks = std::clamp<std::int64_t>((work + threads - 1) / threads, 1, meeting_->most_blocks());
    kernel(meeting_->team(rank_, call_), static_cast<unsigned>(blocks), on.native());
    on.end("a collective of GPUs");
  }

  template <class Unit>
  void gather(Stream& stream, const Tensor& shard, const Tensor& full, std::size_t row_bytes) {
    const RowSplit rows(full.rows(), size());
    Cuts cuts{};
    for (int rank = 0; rank <= size(); ++rank) {
      cuts.at[rank] = rows.begin(rank) * static_cast<std::int64_t>(row_bytes / sizeof(Unit));
    }
    launch(stream, cuts.at[size()], [&](const Team& team, unsigned blocks, cudaStream_t native) {
      const auto ranks = static_cast<unsigned>(team.size);
      blocks = std::max(blocks / ranks, 1U) * ranks;  // every peer needs as many
      all_gather_kernel<Unit>
          <<<blocks, threads, 0, native>>>(team, static_cast<Unit*>(shard.data), static_cast<Unit*>(full.data), cuts);
    });
  }

  template <class T, class TO>
  void scatter(Stream& stream, const Tensor& full, const Tensor& shard) {
    const RowSplit rows(full.rows(), size());
    const std::int64_t first = rows.begin(rank_) * full.cols(), count = rows.count(rank_) * full.cols();
    const auto run = [&](auto width) {
      constexpr int W = decltype(width)::value;
      launch(stream, count / W, [&](const Team& team, unsigned blocks, cudaStream_t native) {
        reduce_scatter_kernel<T, TO, W><<<blocks, threads, 0, native>>>(team, static_cast<T*>(full.data),
                                                                        static_cast<TO*>(shard.data), first / W, count / W);
      });
    };
    const auto row_bytes = static_cast<std::size_t>(full.cols()) * sizeof(T);
    return divides16(shard.data, row_bytes) ? run(Width<T>{}) : run(One{});
  }
};

// Modules load when a kernel first runs, and loading may wait for kernels that run: one that waits for its peer must not be
// among them. So each kernel runs once here, on nothing, in a team of one; call 0 leaves the mailbox as it was.
template <class T>
void warm_up(const Team& alone) {
  const auto reductions = [&](auto width) {
    constexpr int W = decltype(width)::value;
    reduce_scatter_kernel<T, T, W><<<1, threads>>>(alone, nullptr, nullptr, 0, 0);
    if constexpr (sizeof(T) == 2) reduce_scatter_kernel<T, float, W><<<1, threads>>>(alone, nullptr, nullptr, 0, 0);
    all_reduce_kernel<T, W, false><<<1, threads>>>(alone, nullptr, 0);
    all_reduce_kernel<T, W, true><<<1, threads>>>(alone, nullptr, 0);
  };
  reductions(One{});
  reductions(Width<T>{});
}

void warm_up(const Meeting& meeting, int rank, int device) {
  Team alone = meeting.team(rank, 0);
  alone.boxes[0] = alone.boxes[rank];
  alone.rank = 0;
  alone.size = 1;
  warm_up<float>(alone);
  warm_up<double>(alone);
  warm_up<__nv_bfloat16>(alone);
  all_gather_kernel<uint4><<<1, threads>>>(alone, nullptr, nullptr, Cuts{});
  all_gather_kernel<unsigned><<<1, threads>>>(alone, nullptr, nullptr, Cuts{});
  all_gather_kernel<unsigned short><<<1, threads>>>(alone, nullptr, nullptr, Cuts{});
  cuda_check(cudaGetLastError(), "loading the kernels of a group of GPUs", device);
  cuda_check(cudaDeviceSynchronize(), "loading the kernels of a group of GPUs", device);
}

}  // namespace

std::vector<std::unique_ptr<Group>> make_cuda_groups(const std::vector<Device*>& devices, GroupUse use) {
  if (devices.empty() || devices.size() > max_ranks) {
    throw Error(ErrorKind::unavailable,
                "a group of GPUs has 1 to " + std::to_string(max_ranks) + " ranks, not " + std::to_string(devices.size()));
  }
  const auto meeting = std::make_shared<Meeting>(devices, use == GroupUse::alone ? max_blocks : max_blocks_beside);
  const auto piece_meeting = make_piece_meeting(static_cast<int>(devices.size()));
  std::vector<std::unique_ptr<Group>> groups;
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    const int device = devices[rank]->id().index;
    cuda_check(cudaSetDevice(device), "choosing the device", device);
    warm_up(*meeting, static_cast<int>(rank), device);
    groups.push_back(std::make_unique<CudaGroup>(meeting, piece_meeting, static_cast<int>(rank), *devices[rank]));
  }
  return groups;
}

}  // namespace pipetrain
