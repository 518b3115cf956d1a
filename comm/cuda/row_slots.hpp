// Copies rows whose numbers only the device knows into slots of equal length, one for each rank, and out of them, for networks
// that must know a message's size in advance. CUDA builds only.
#pragma once

#include <cstdint>

#include "core/cuda/cuda_stream.hpp"
#include "core/process_group.hpp"
#include "core/tensor.hpp"

namespace pipetrain {

// The slots of all ranks are adjacent; each begins at a multiple of 16 bytes and holds at least `count` rows.
struct RowSlots {
  void* slots;
  void* own_slot;             // of this rank
  std::int64_t slot_bytes;    // the distance between two
  int rank;                   // this one
  std::int64_t first, count;  // of each rank's rows: those from `first` on, at most `count`
};

// The rows [offsets[m], offsets[m + 1]) are those of rank m. offsets [ranks + 1] i32.
void copy_into_slots(CudaStream& stream, const RowExchange::Rows& rows, const Tensor& offsets, const RowSlots& slots);
void copy_out_of_slots(CudaStream& stream, const RowSlots& slots, const Tensor& target, const Tensor& offsets);

// counts [ranks] i32 = the number of each rank's rows.
void count_rows(CudaStream& stream, const Tensor& offsets, const Tensor& counts);
// offsets [ranks + 1] i32 = the sums of the counts before each rank. own: this rank's count, which is not read from `counts`.
void add_up_counts(CudaStream& stream, const Tensor& counts, int rank, const Tensor& own, const Tensor& offsets);

}  // namespace pipetrain
