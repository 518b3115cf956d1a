// The device code with which the kernels of one collective meet and read or write each other's memory.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "comm/cuda/far_memory.hpp"

namespace pipetrain::peer {

constexpr int max_ranks = max_cuda_group_ranks;
constexpr int threads = 512;
constexpr int most_exchanged = 2;                 // tensors in one exchange of rows
constexpr int most_tensors = 1 + most_exchanged;  // of a rank in one call

// In each rank's memory, written by its peers. Sequence numbers only grow, so nothing is ever reset.
struct Mailbox {
  Place tensors[max_ranks][most_tensors];  // where each peer's tensors of the present call are
  unsigned arrived[max_ranks];             // the last call that the peer has begun
  unsigned finished[max_ranks];            // the last call for which the peer needs no other rank's memory any more
  unsigned blocks;                         // blocks of this rank's own kernel that have finished
};

struct Team {
  Mailbox* boxes[max_ranks];
  const char* const*
      beginnings;              // FarMemory::beginnings(); null where all ranks run in this process, and a place is an address
  Place places[most_tensors];  // of this rank's tensors of the present call
  const int* aborted;          // in host memory
  int rank, size;
  unsigned call;
  bool met;  // the streams meet before and after the kernels, so that no kernel waits for another one
};

__device__ inline unsigned acquire(const unsigned* flag) {
  unsigned value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}

__device__ inline void release(unsigned* flag, unsigned value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

// Waits until *flag reaches this call; returns false when the group was aborted.
__device__ inline bool wait_for(const Team& team, const unsigned* flag) {
  for (unsigned spins = 1; static_cast<int>(acquire(flag) - team.call) < 0; ++spins) {
    if (spins % 1024 == 0 && *static_cast<const volatile int*>(team.aborted) != 0) return false;
  }
  return true;
}

// Tells a peer where this rank's tensors are.
__device__ inline void announce(const Team& team, int peer) {
  Mailbox* box = team.boxes[peer];
#pragma unroll
  for (int i = 0; i < most_tensors; ++i) *static_cast<volatile Place*>(&box->tensors[team.rank][i]) = team.places[i];
  release(&box->arrived[team.rank], team.call);
}

// Announces this rank's tensors, and waits for all peers' announcements. All threads of all blocks call it. Returns false after
// an abort; where events have met, they are then released although peers may not have come.
__device__ inline bool meet(const Team& team) {
  if (team.met) return __syncthreads_and(threadIdx.x != 0 || *static_cast<const volatile int*>(team.aborted) == 0) != 0;
  const int peer = static_cast<int>(threadIdx.x);
  if (blockIdx.x == 0 && peer < team.size) announce(team, peer);
  const bool here = peer >= team.size || wait_for(team, &team.boxes[team.rank]->arrived[peer]);
  return __syncthreads_and(here) != 0;
}

template <class T>
__device__ T* tensor_of(const Team& team, int peer, int number = 0) {
  const Place place = *static_cast<const volatile Place*>(&team.boxes[team.rank]->tensors[peer][number]);
  if (team.beginnings == nullptr) return reinterpret_cast<T*>(place);
  const char* begin = team.beginnings[peer * most_allocations + static_cast<int>(place >> place_offset_bits)];
  return reinterpret_cast<T*>(const_cast<char*>(begin) + (place & place_offset_mask));
}

// Ends the call: the last block waits until no peer uses this rank's memory.
__device__ inline void leave(const Team& team) {
  if (team.met) return;
  __shared__ bool last;
  Mailbox* own = team.boxes[team.rank];
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence_system();
    last = atomicAdd(&own->blocks, 1U) == gridDim.x - 1;
    if (last) own->blocks = 0;
    __threadfence_system();
  }
  __syncthreads();
  const int peer = static_cast<int>(threadIdx.x);
  if (!last || peer >= team.size) return;
  release(&team.boxes[peer]->finished[team.rank], team.call);
  wait_for(team, &own->finished[peer]);
}

// --- Numbers --------------------------------------------------------------------------------------------------------------

template <class T>
struct Accumulator {
  using type = float;
};
template <>
struct Accumulator<double> {
  using type = double;
};

template <class To, class From>
__device__ To convert(From value) {
  return static_cast<To>(value);
}
template <>
__device__ inline float convert<float, __nv_bfloat16>(__nv_bfloat16 value) {
  return __bfloat162float(value);
}
template <>
__device__ inline __nv_bfloat16 convert<__nv_bfloat16, float>(float value) {
  return __float2bfloat16_rn(value);
}
template <>
__device__ inline float convert<float, __half>(__half value) {
  return __half2float(value);
}
template <>
__device__ inline __half convert<__half, float>(float value) {
  return __float2half_rn(value);
}

template <class T, int W>
struct alignas(sizeof(T) * W <= 16 ? sizeof(T) * W : 16) Pack {
  T at[W];
};

template <bool maximum, class A>
__device__ A combine(A a, A b) {
  if constexpr (maximum) return a < b ? b : a;
  return a + b;
}

// Combines the ranks' packs at `index` in rank order. Issues all loads before it uses the first.
template <bool maximum, class T, int W>
__device__ void reduce(const Team& team, const T* const (&tensors)[max_ranks], std::int64_t index,
                       typename Accumulator<T>::type (&out)[W]) {
  using A = typename Accumulator<T>::type;
  Pack<T, W> in[max_ranks];
#pragma unroll
  for (int peer = 0; peer < max_ranks; ++peer) {
    if (peer < team.size) in[peer] = reinterpret_cast<const Pack<T, W>*>(tensors[peer])[index];
  }
#pragma unroll
  for (int i = 0; i < W; ++i) out[i] = convert<A>(in[0].at[i]);
#pragma unroll
  for (int peer = 1; peer < max_ranks; ++peer) {
    if (peer >= team.size) break;
#pragma unroll
    for (int i = 0; i < W; ++i) out[i] = combine<maximum>(out[i], convert<A>(in[peer].at[i]));
  }
}

// --- The collectives --------------------------------------------------------------------------------------------------------

struct Cuts {
  std::int64_t at[max_ranks + 1];  // of the gathered tensor, in units, by rank
};

// The blocks of a kernel alternate between the peers, so that every link is busy at once.
struct PeerBlocks {
  int peer;
  std::int64_t first, stride;  // of this thread, among those that copy from this peer

  __device__ explicit PeerBlocks(const Team& team)
      : peer((team.rank + static_cast<int>(blockIdx.x)) % team.size),
        first(static_cast<std::int64_t>(blockIdx.x) / team.size * threads + threadIdx.x),
        stride(static_cast<std::int64_t>(gridDim.x) / team.size * threads) {}
};

// at(i): the i-th unit that is copied.
template <int unroll, class Unit, class At>
__device__ void copy_units(const PeerBlocks& blocks, const At& at, Unit* target, std::int64_t count) {
  for (std::int64_t first = blocks.first; first < count; first += blocks.stride * unroll) {
    Unit in[unroll];
#pragma unroll
    for (int n = 0; n < unroll; ++n) {
      if (first + n * blocks.stride < count) in[n] = at(first + n * blocks.stride);
    }
#pragma unroll
    for (int n = 0; n < unroll; ++n) {
      if (first + n * blocks.stride < count) target[first + n * blocks.stride] = in[n];
    }
  }
}

template <class Unit>
__global__ void __launch_bounds__(threads)
    all_gather_kernel(const __grid_constant__ Team team, Unit* __restrict__ full, const __grid_constant__ Cuts cuts) {
  if (!meet(team)) return;
  const PeerBlocks blocks(team);
  const std::int64_t begin = cuts.at[blocks.peer], end = cuts.at[blocks.peer + 1];
  const Unit* const source = tensor_of<const Unit>(team, blocks.peer);
  Unit* const target = full + begin;
  if (source != target)
    copy_units<4>(
        blocks, [=](std::int64_t i) { return source[i]; }, target, end - begin);
  leave(team);
}

// received [ranks, count] = this rank's units [begin, begin + count) of every member's tensor.
template <class Unit>
__global__ void __launch_bounds__(threads)
    exchange_kernel(const __grid_constant__ Team team, Unit* __restrict__ received, std::int64_t begin, std::int64_t count) {
  if (!meet(team)) return;
  const PeerBlocks blocks(team);
  const Unit* const source = tensor_of<const Unit>(team, blocks.peer) + begin;
  copy_units<4>(
      blocks, [=](std::int64_t i) { return source[i]; }, received + blocks.peer * count, count);
  leave(team);
}

// The rows that a rank sends. The tensors that its peers reach are its offsets, then each target.
struct SentRows {
  const int* offsets;  // [ranks + 1]: this rank's
  int* received;       // [ranks + 1]
  int count;           // of the sources
  const void* sources[most_exchanged];
  const int* orders[most_exchanged];  // null: the rows as they are
  unsigned row_units[most_exchanged];
};

// RowCounts has what one rank sends and receives, in rows.
struct RowCounts {
  int begins[max_ranks + 1];    // of the rows for each peer among those that this rank sends
  int targets[max_ranks];       // where they go among those that the peer receives
  int received[max_ranks + 1];  // where each peer's rows begin among those that this rank receives

  // All threads of the block must call it. Reads the counts from every member's offsets.
  __device__ void find(const Team& team, const int* own_offsets) {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread <= team.size) begins[thread] = own_offsets[thread];
    if (thread < team.size) {
      const int* const offsets = tensor_of<const int>(team, thread);
      received[thread + 1] = offsets[team.rank + 1] - offsets[team.rank];
      int before = 0;
      for (int member = 0; member < team.rank; ++member) {
        const int* const theirs = tensor_of<const int>(team, member);
        before += theirs[thread + 1] - theirs[thread];
      }
      targets[thread] = before;
    }
    __syncthreads();
    if (thread == 0) {
      received[0] = 0;
      for (int peer = 0; peer < team.size; ++peer) received[peer + 1] += received[peer];
    }
    __syncthreads();
  }
};

// Each rank writes its rows to its peers' memory: writes fill a link better than reads, whose requests share it. After an abort
// no row counts as received, because kernels that are enqueued already take the counts for places.
template <class Unit>
__global__ void __launch_bounds__(threads)
    all_to_all_kernel(const __grid_constant__ Team team, const __grid_constant__ SentRows rows) {
  __shared__ RowCounts counts;
  const int thread = static_cast<int>(threadIdx.x);
  if (!meet(team)) {
    if (rows.count > 0 && blockIdx.x == 0 && thread <= team.size) rows.received[thread] = 0;
    return;
  }
  if (rows.count > 0) {  // there are offsets
    counts.find(team, rows.offsets);
    if (blockIdx.x == 0 && thread <= team.size) rows.received[thread] = counts.received[thread];
  }
  constexpr int unroll = 8;
  const PeerBlocks blocks(team);
  for (int i = 0; i < rows.count; ++i) {
    const unsigned units = rows.row_units[i];
    const std::int64_t begin = counts.begins[blocks.peer], count = counts.begins[blocks.peer + 1] - begin;
    const Unit* const source = static_cast<const Unit*>(rows.sources[i]);
    Unit* const target = tensor_of<Unit>(team, blocks.peer, 1 + i) + std::int64_t{counts.targets[blocks.peer]} * units;
    if (rows.orders[i] != nullptr) {
      const int* const order = rows.orders[i] + begin;
      const auto at = [=](std::int64_t number) {
        const unsigned row = static_cast<unsigned>(number) / units, unit = static_cast<unsigned>(number) % units;
        return source[static_cast<std::int64_t>(order[row]) * units + unit];
      };
      copy_units<unroll>(blocks, at, target, count * units);
    } else {
      const auto at = [first = source + begin * units](std::int64_t number) { return first[number]; };
      copy_units<unroll>(blocks, at, target, count * units);
    }
  }
  leave(team);
}

// out [packs] = the sum of every rank's packs [first, first + packs).
template <class T, class TO, int W>
__global__ void __launch_bounds__(threads)
    reduce_scatter_kernel(const __grid_constant__ Team team, TO* __restrict__ out, std::int64_t first, std::int64_t packs) {
  if (!meet(team)) return;
  const T* tensors[max_ranks];
#pragma unroll
  for (int peer = 0; peer < max_ranks; ++peer) tensors[peer] = peer < team.size ? tensor_of<T>(team, peer) : nullptr;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x; at < packs; at += gridDim.x * threads) {
    typename Accumulator<T>::type sum[W];
    reduce<false, T, W>(team, tensors, first + at, sum);
    Pack<TO, W> packed;
#pragma unroll
    for (int i = 0; i < W; ++i) packed.at[i] = convert<TO>(sum[i]);
    reinterpret_cast<Pack<TO, W>*>(out)[at] = packed;
  }
  leave(team);
}

// Each rank reduces its share of the packs and writes the result to every rank: no other rank reads or writes that share.
template <class T, int W, bool maximum>
__global__ void __launch_bounds__(threads) all_reduce_kernel(const __grid_constant__ Team team, std::int64_t packs) {
  if (!meet(team)) return;
  const T* tensors[max_ranks];
#pragma unroll
  for (int peer = 0; peer < max_ranks; ++peer) tensors[peer] = peer < team.size ? tensor_of<T>(team, peer) : nullptr;
  const std::int64_t share = (packs + team.size - 1) / team.size;
  const std::int64_t begin = share * team.rank, end = begin + share < packs ? begin + share : packs;
  for (std::int64_t at = begin + static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x; at < end;
       at += gridDim.x * threads) {
    typename Accumulator<T>::type result[W];
    reduce<maximum, T, W>(team, tensors, at, result);
    Pack<T, W> packed;
#pragma unroll
    for (int i = 0; i < W; ++i) packed.at[i] = convert<T>(result[i]);
#pragma unroll
    for (int peer = 0; peer < max_ranks; ++peer) {
      if (peer < team.size) reinterpret_cast<Pack<T, W>*>(const_cast<T*>(tensors[peer]))[at] = packed;
    }
  }
  leave(team);
}

}  // namespace pipetrain::peer
