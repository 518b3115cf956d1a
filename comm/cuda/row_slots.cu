#include "comm/cuda/row_slots.hpp"

#include <algorithm>
#include <numeric>

namespace pipetrain {
namespace {

constexpr int threads = 512;
constexpr unsigned blocks_of_rank = 32;

struct SlotsView {
  const int* offsets;
  const int* order;  // of the rows that go into slots; null: in place
  std::int64_t row_units, slot_units, first, count;
  int rank;
};

// blockIdx.y: the rank whose rows are copied.
template <class Unit, bool into>
__global__ void __launch_bounds__(threads) copy_slots_kernel(SlotsView view, Unit* rows, Unit* slots, Unit* own_slot) {
  const int peer = static_cast<int>(blockIdx.y);
  const std::int64_t begin = view.offsets[peer] + view.first,
                     end = min(static_cast<std::int64_t>(view.offsets[peer + 1]), begin + view.count);
  Unit* const slot = peer == view.rank ? own_slot : slots + peer * view.slot_units;
  const std::int64_t units = (end - begin) * view.row_units, stride = static_cast<std::int64_t>(gridDim.x) * threads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x; i < units; i += stride) {
    // A slot is short enough for the faster division.
    const unsigned row_units = static_cast<unsigned>(view.row_units), within = static_cast<unsigned>(i);
    const std::int64_t row = begin + within / row_units;
    Unit& at = rows[(view.order == nullptr ? row : view.order[row]) * view.row_units + within % row_units];
    into ? slot[i] = at : at = slot[i];
  }
}

// order: of the rows, or null.
template <bool into>
void copy_slots(CudaStream& stream, const Tensor& rows, const int* order, const Tensor& offsets, const RowSlots& slots) {
  if (!stream.begin()) return;
  const std::int64_t row_bytes = rows.cols() * static_cast<std::int64_t>(size_of(rows.dtype));
  const auto run = [&](auto unit) {
    using Unit = decltype(unit);
    constexpr auto bytes = static_cast<std::int64_t>(sizeof(Unit));
    const SlotsView view{.offsets = static_cast<const int*>(offsets.data),
                         .order = order,
                         .row_units = row_bytes / bytes,
                         .slot_units = slots.slot_bytes / bytes,
                         .first = slots.first,
                         .count = slots.count,
                         .rank = slots.rank};
    const dim3 blocks(blocks_of_rank, static_cast<unsigned>(offsets.elements() - 1));
    copy_slots_kernel<Unit, into><<<blocks, threads, 0, stream.native()>>>(
        view, static_cast<Unit*>(rows.data), static_cast<Unit*>(slots.slots), static_cast<Unit*>(slots.own_slot));
  };
  if (row_bytes % 16 == 0) {
    run(uint4{});
  } else if (row_bytes % 4 == 0) {
    run(unsigned{});
  } else {
    run(static_cast<unsigned short>(0));
  }
  stream.end("copying rows for other ranks");
}

__global__ void count_rows_kernel(const int* offsets, int* counts, int ranks) {
  for (int rank = static_cast<int>(threadIdx.x); rank < ranks; rank += static_cast<int>(blockDim.x))
    counts[rank] = offsets[rank + 1] - offsets[rank];
}

// One thread: there are few ranks.
__global__ void add_up_kernel(const int* counts, int own_rank, const int* own, int* offsets, int ranks) {
  offsets[0] = 0;
  for (int rank = 0; rank < ranks; ++rank) offsets[rank + 1] = offsets[rank] + (rank == own_rank ? *own : counts[rank]);
}

}  // namespace

void copy_into_slots(CudaStream& stream, const RowExchange::Rows& rows, const Tensor& offsets, const RowSlots& slots) {
  const int* const order = rows.is_ordered() ? static_cast<const int*>(rows.order.data) : nullptr;
  copy_slots<true>(stream, rows.source, order, offsets, slots);
}

void copy_out_of_slots(CudaStream& stream, const RowSlots& slots, const Tensor& target, const Tensor& offsets) {
  copy_slots<false>(stream, target, nullptr, offsets, slots);
}

void count_rows(CudaStream& stream, const Tensor& offsets, const Tensor& counts) {
  if (!stream.begin()) return;
  count_rows_kernel<<<1, threads, 0, stream.native()>>>(static_cast<const int*>(offsets.data), static_cast<int*>(counts.data),
                                                        static_cast<int>(counts.elements()));
  stream.end("counting rows for other ranks");
}

void add_up_counts(CudaStream& stream, const Tensor& counts, int rank, const Tensor& own, const Tensor& offsets) {
  if (!stream.begin()) return;
  add_up_kernel<<<1, 1, 0, stream.native()>>>(static_cast<const int*>(counts.data), rank, static_cast<const int*>(own.data),
                                              static_cast<int*>(offsets.data), static_cast<int>(counts.elements()));
  stream.end("counting rows from other ranks");
}

}  // namespace pipetrain
