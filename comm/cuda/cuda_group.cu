#include "comm/cuda/cuda_group.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>

#include "comm/cuda/kernel_meeting.hpp"
#include "comm/cuda/peer_kernels.cuh"
#include "core/cuda/cuda_memory.hpp"
#include "core/cuda/cuda_stream.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

using namespace peer;

// Announces this rank's tensors before the streams meet.
__global__ void __launch_bounds__(max_ranks) announce_kernel(const __grid_constant__ Team team) {
  const int peer = static_cast<int>(threadIdx.x);
  if (peer < team.size) announce(team, peer);
}

void check_reach(const std::vector<Device*>& devices, const Device& device) {
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

Buffer make_mailbox(Device& device) {
  Buffer box = device.allocate(sizeof(Mailbox), "a mailbox of a group of GPUs");
  cuda_check(cudaMemset(box.data(), 0, sizeof(Mailbox)), "clearing a mailbox", device.id().index);
  cuda_check(cudaDeviceSynchronize(), "clearing a mailbox", device.id().index);
  return box;
}

// Calls body with a value of the element type.
template <class Body>
void with_element(DType dtype, const char* what, Body body) {
  switch (dtype) {
    case DType::f32:
      return body(float{});
    case DType::bf16:
      return body(__nv_bfloat16{});
    case DType::f16:
      return body(__half{});
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
  // `team` is of call 0. far: null where all ranks run in this process.
  CudaGroup(std::shared_ptr<KernelMeeting> meeting, const Team& team, Device& device,
            std::shared_ptr<PieceMeeting> piece_meeting, std::shared_ptr<FarMemory> far)
      : meeting_(std::move(meeting)), piece_meeting_(std::move(piece_meeting)), far_(std::move(far)), team_(team) {
    pieces_ = make_cuda_pieces(piece_meeting_, team.rank, device);
    if (far_) team_.beginnings = far_->beginnings();
  }
  ~CudaGroup() override {
    for (Stream* stream : streams_) meeting_->forget(stream);
  }

  int rank() const override { return team_.rank; }
  int size() const override { return team_.size; }

  using Group::all_gather, Group::reduce_scatter;

  void all_gather(Stream& stream, const Tensor& shard, const Tensor& full, const RowSplit& rows) override {
    const Cuts bytes = bytes_of(full, rows);
    with_unit(divisor_of(bytes), [&](auto unit) { gather<decltype(unit)>(stream, shard, full, bytes); });
  }

  void reduce_scatter(Stream& stream, const Tensor& full, const Tensor& shard, const RowSplit& rows) override {
    with_element(full.dtype, "reduce_scatter", [&](auto element) {
      using T = decltype(element);
      if (shard.dtype == full.dtype) return scatter<T, T>(stream, full, shard, rows);
      if constexpr (sizeof(T) == 2) {
        if (shard.dtype == DType::f32) return scatter<T, float>(stream, full, shard, rows);
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
        launch(stream, {tensor}, packs / size() + 1, [&](const Team& team, unsigned blocks, cudaStream_t native) {
          all_reduce_kernel<T, W, decltype(maximum)::value><<<blocks, threads, 0, native>>>(team, packs);
        });
      };
      const bool wide = divides16(nullptr, tensor.bytes());
      if (reduction == Reduction::max) return wide ? run(Width<T>{}, std::true_type{}) : run(One{}, std::true_type{});
      return wide ? run(Width<T>{}, std::false_type{}) : run(One{}, std::false_type{});
    });
  }

  void shift(Stream& stream, const Tensor& source, const Tensor& target) override { pieces_->shift(stream, source, target); }

  void exchange(Stream& stream, const Tensor& full, const Tensor& received, const RowSplit& rows) override {
    const Cuts bytes = bytes_of(full, rows);
    with_unit(divisor_of(bytes), [&](auto unit) { exchange_units<decltype(unit)>(stream, full, received, bytes); });
  }

  void all_to_all(Stream& stream, const RowExchange& exchange) override {
    if (exchange.rows.empty() || exchange.rows.size() > most_exchanged)
      throw Error(ErrorKind::internal, "GPUs exchange rows of " + std::to_string(exchange.rows.size()) + " tensors");
    std::int64_t divisor = 16;  // the bytes of all rows: see all_gather()
    for (const RowExchange::Rows& rows : exchange.rows) divisor = std::gcd(divisor, row_bytes(rows.source));
    with_unit(divisor, [&](auto unit) { exchange_rows<decltype(unit)>(stream, exchange); });
  }

  PiecewiseTransfer* in_pieces() override { return pieces_.get(); }

  void abort(std::exception_ptr cause) override {
    meeting_->abort(cause);
    pipetrain::abort(*piece_meeting_, cause);
    if (far_) far_->abort(cause);
  }

 private:
  std::shared_ptr<KernelMeeting> meeting_;
  std::shared_ptr<PieceMeeting> piece_meeting_;
  std::shared_ptr<FarMemory> far_;
  std::unique_ptr<CudaPieces> pieces_;
  Team team_;
  std::set<Stream*> streams_;

  static std::int64_t row_bytes(const Tensor& tensor) {
    return tensor.cols() * static_cast<std::int64_t>(size_of(tensor.dtype));
  }

  Cuts bytes_of(const Tensor& full, const RowSplit& rows) const {
    Cuts bytes{};
    for (int rank = 0; rank <= size(); ++rank) bytes.at[rank] = rows.begin(rank) * row_bytes(full);
    return bytes;
  }
  // The unit must suit every rank's rows, and be the same for all: it follows from the cuts alone, because tensors are aligned.
  std::int64_t divisor_of(const Cuts& bytes) const {
    std::int64_t divisor = 16;
    for (int rank = 0; rank <= size(); ++rank) divisor = std::gcd(divisor, bytes.at[rank]);
    return divisor;
  }

  // Calls work with a value of the widest type whose size divides this number of bytes, which is even.
  template <class Work>
  static void with_unit(std::int64_t divisor, const Work& work) {
    if (divisor == 16) return work(uint4{});
    if (divisor % 4 == 0) return work(0U);
    work(static_cast<unsigned short>(0));
  }

  // Returns false after an abort.
  bool find_places(CudaStream& stream, const std::vector<Tensor>& tensors) {
    try {
      Place* place = team_.places;
      for (const Tensor& tensor : tensors) *place++ = far_ ? far_->place_of(tensor) : reinterpret_cast<Place>(tensor.data);
      return true;
    } catch (...) {
      stream.fail(std::current_exception());
      return false;
    }
  }

  // work: number of units, one per thread, of at most `most_blocks` blocks.
  struct Extent {
    std::int64_t work;
    int most_blocks;
  };
  // reached: the tensors of this rank that peers read or write, at most most_tensors.
  template <class Kernel>
  void launch(Stream& stream, const std::vector<Tensor>& reached, std::int64_t work, Kernel kernel) {
    launch(stream, reached, Extent{work, meeting_->most_blocks()}, kernel);
  }
  template <class Kernel>
  void launch(Stream& stream, const std::vector<Tensor>& reached, const Extent& extent, Kernel kernel) {
    CudaStream& on = cuda_stream(stream);
    streams_.insert(&stream);
    ++team_.call;  // counted even when it is not enqueued: ranks must count alike
    if (!meeting_->enter(on) || !find_places(on, reached)) return;
    const std::int64_t blocks = std::clamp<std::int64_t>((extent.work + threads - 1) / threads, 1, extent.most_blocks);
    const auto enqueue = [&] { kernel(team_, static_cast<unsigned>(blocks), on.native()); };
    if (team_.met) {
      announce_kernel<<<1, max_ranks, 0, on.native()>>>(team_);
      pieces_->together(stream, enqueue);
    } else {
      enqueue();
    }
    on.end("a collective of GPUs");
  }

  template <class Unit>
  void gather(Stream& stream, const Tensor& shard, const Tensor& full, const Cuts& bytes) {
    Cuts cuts{};
    for (int rank = 0; rank <= size(); ++rank) cuts.at[rank] = bytes.at[rank] / static_cast<std::int64_t>(sizeof(Unit));
    launch(stream, {shard}, cuts.at[size()], [&](const Team& team, unsigned blocks, cudaStream_t native) {
      all_gather_kernel<Unit><<<blocks_of_peers(team, blocks), threads, 0, native>>>(team, static_cast<Unit*>(full.data), cuts);
    });
  }

  template <class Unit>
  void exchange_units(Stream& stream, const Tensor& full, const Tensor& received, const Cuts& bytes) {
    constexpr auto unit = static_cast<std::int64_t>(sizeof(Unit));
    const std::int64_t begin = bytes.at[rank()] / unit, count = bytes.at[rank() + 1] / unit - begin;
    launch(stream, {full}, count * size(), [&](const Team& team, unsigned blocks, cudaStream_t native) {
      exchange_kernel<Unit>
          <<<blocks_of_peers(team, blocks), threads, 0, native>>>(team, static_cast<Unit*>(received.data), begin, count);
    });
  }

  // Every peer needs the same number.
  static unsigned blocks_of_peers(const Team& team, unsigned blocks) {
    const auto ranks = static_cast<unsigned>(team.size);
    return std::max(blocks / ranks, 1U) * ranks;
  }

  // Between two GPUs, half of an exchange's blocks copy this rank's own rows. On H100s the exchanges of Mixtral take 107 us
  // with 128 blocks, 113 with 64 and 168 with 32; a step of Qwen3's braids takes 0.494 s with 128 and 0.496 with 64.
  static constexpr int exchange_blocks = 128;
  template <class Unit>
  void exchange_rows(Stream& stream, const RowExchange& exchange) {
    SentRows rows{};
    rows.offsets = static_cast<const int*>(exchange.offsets.data);
    rows.received = static_cast<int*>(exchange.received.data);
    std::vector<Tensor> reached{exchange.offsets};
    std::int64_t work = 0;
    for (const RowExchange::Rows& of : exchange.rows) {
      reached.push_back(of.target);
      rows.sources[rows.count] = of.source.data;
      rows.orders[rows.count] = of.is_ordered() ? static_cast<const int*>(of.order.data) : nullptr;
      rows.row_units[rows.count++] = static_cast<unsigned>(row_bytes(of.source) / static_cast<std::int64_t>(sizeof(Unit)));
      const auto units = static_cast<std::int64_t>(of.target.bytes() / sizeof(Unit));
      if (units >= std::int64_t{1} << 32)
        throw Error(ErrorKind::unavailable, "an exchange of rows between GPUs: too many tokens at once");
      work += units;
    }
    launch(stream, reached, Extent{work, exchange_blocks}, [&](const Team& team, unsigned blocks, cudaStream_t native) {
      all_to_all_kernel<Unit><<<blocks_of_peers(team, blocks), threads, 0, native>>>(team, rows);
    });
  }

  template <class T, class TO>
  void scatter(Stream& stream, const Tensor& full, const Tensor& shard, const RowSplit& rows) {
    const std::int64_t first = rows.begin(rank()) * full.cols(), count = rows.count(rank()) * full.cols();
    const auto run = [&](auto width) {
      constexpr int W = decltype(width)::value;
      launch(stream, {full}, count / W, [&](const Team& team, unsigned blocks, cudaStream_t native) {
        reduce_scatter_kernel<T, TO, W>
            <<<blocks, threads, 0, native>>>(team, static_cast<TO*>(shard.data), first / W, count / W);
      });
    };
    const bool wide = first % Width<T>::value == 0 && count % Width<T>::value == 0 && divides16(shard.data, 0);
    return wide ? run(Width<T>{}) : run(One{});
  }
};

// Modules load when a kernel first runs, and loading may wait for running kernels: one that waits for its peer must not
// be among them. So each kernel runs once here, without data, in a team of one; call 0 leaves the mailbox as it was.
template <class T>
void warm_up(const Team& alone) {
  const auto reductions = [&](auto width) {
    constexpr int W = decltype(width)::value;
    reduce_scatter_kernel<T, T, W><<<1, threads>>>(alone, nullptr, 0, 0);
    if constexpr (sizeof(T) == 2) reduce_scatter_kernel<T, float, W><<<1, threads>>>(alone, nullptr, 0, 0);
    all_reduce_kernel<T, W, false><<<1, threads>>>(alone, 0);
    all_reduce_kernel<T, W, true><<<1, threads>>>(alone, 0);
  };
  reductions(One{});
  reductions(Width<T>{});
}

void warm_up(Team alone, int device) {
  cuda_check(cudaSetDevice(device), "choosing the device", device);
  alone.boxes[0] = alone.boxes[alone.rank];
  alone.rank = 0;
  alone.size = 1;
  warm_up<float>(alone);
  warm_up<double>(alone);
  warm_up<__nv_bfloat16>(alone);
  warm_up<__half>(alone);
  announce_kernel<<<1, max_ranks>>>(alone);
  all_gather_kernel<uint4><<<1, threads>>>(alone, nullptr, Cuts{});
  all_gather_kernel<unsigned><<<1, threads>>>(alone, nullptr, Cuts{});
  all_gather_kernel<unsigned short><<<1, threads>>>(alone, nullptr, Cuts{});
  exchange_kernel<uint4><<<1, threads>>>(alone, nullptr, 0, 0);
  exchange_kernel<unsigned><<<1, threads>>>(alone, nullptr, 0, 0);
  exchange_kernel<unsigned short><<<1, threads>>>(alone, nullptr, 0, 0);
  all_to_all_kernel<uint4><<<1, threads>>>(alone, SentRows{});
  all_to_all_kernel<unsigned><<<1, threads>>>(alone, SentRows{});
  all_to_all_kernel<unsigned short><<<1, threads>>>(alone, SentRows{});
  cuda_check(cudaGetLastError(), "loading the kernels of a group of GPUs", device);
  cuda_check(cudaDeviceSynchronize(), "loading the kernels of a group of GPUs", device);
}

// Makes the team of a rank whose peers' mailboxes are mailbox(peer).
template <class MailboxOf>
Team make_team(const KernelMeeting& meeting, int rank, int size, bool met, MailboxOf mailbox) {
  Team team{};
  for (int peer = 0; peer < size; ++peer) team.boxes[peer] = static_cast<Mailbox*>(mailbox(peer));
  team.aborted = meeting.aborted();
  team.rank = rank;
  team.size = size;
  team.met = met;
  return team;
}

void check_size(std::size_t ranks) {
  if (ranks >= 1 && ranks <= max_ranks) return;
  throw Error(ErrorKind::unavailable,
              "a group of GPUs has 1 to " + std::to_string(max_ranks) + " ranks, not " + std::to_string(ranks));
}

}  // namespace

std::vector<std::unique_ptr<Group>> make_cuda_groups(const std::vector<Device*>& devices) {
  check_size(devices.size());
  const auto size = static_cast<int>(devices.size());
  const auto meeting = std::make_shared<KernelMeeting>(devices);
  const auto piece_meeting = make_piece_meeting(devices);
  std::vector<Buffer> boxes;
  const bool met = share_gpus(devices);
  for (Device* device : devices) {
    check_reach(devices, *device);
    boxes.push_back(make_mailbox(*device));
  }
  std::vector<std::unique_ptr<Group>> groups;
  for (int rank = 0; rank < size; ++rank) {
    Device& device = *devices[static_cast<std::size_t>(rank)];
    const Team team =
        make_team(*meeting, rank, size, met, [&](int peer) { return boxes[static_cast<std::size_t>(peer)].data(); });
    warm_up(team, device.id().index);
    groups.push_back(std::make_unique<CudaGroup>(meeting, team, device, piece_meeting, nullptr));
  }
  meeting->keep(std::move(boxes));
  return groups;
}

std::vector<std::unique_ptr<Group>> make_far_cuda_groups(const FarGroup& group, const std::vector<FarGroupRank>& ranks) {
  const int size = group.size;
  check_size(static_cast<std::size_t>(size));
  std::vector<Device*> devices;
  for (const FarGroupRank& rank : ranks) devices.push_back(rank.device);
  const auto meeting = std::make_shared<KernelMeeting>(devices);
  std::vector<std::unique_ptr<Group>> groups;
  for (const FarGroupRank& rank : ranks) {
    const Team team =
        make_team(*meeting, rank.rank, size, group.gpus_are_shared, [&](int peer) { return rank.memory->mailbox(peer); });
    // Uses a separate mailbox, because peers that are ready may write to the other one already.
    const Buffer scratch = make_mailbox(*rank.device);
    warm_up(make_team(*meeting, rank.rank, size, false, [&](int) { return scratch.data(); }), rank.device->id().index);
    groups.push_back(std::make_unique<CudaGroup>(meeting, team, *rank.device, rank.pieces, rank.memory));
  }
  return groups;
}

bool share_gpus(const std::vector<Device*>& devices) {
  std::set<int> seen;
  return std::any_of(devices.begin(), devices.end(), [&](const Device* device) {
    const int gpu = device->id().index;
    return !seen.insert(gpu).second || open_cuda_devices(gpu) > 1;
  });
}

std::size_t cuda_group_mailbox_bytes() { return sizeof(Mailbox); }

}  // namespace pipetrain
