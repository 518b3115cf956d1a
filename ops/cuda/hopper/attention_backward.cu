// Attention's backward with warp group products: two groups of warps hold dK and dV of 64 keys each, or with heads of 256 half
// of the columns of the same 64 keys, as in FlashAttention-3 (Shah et al. 2024, arXiv 2407.08608), while one warp loads their
// inputs and two add their results to dQ.
#include <cuda_runtime.h>

#include <algorithm>
#include <type_traits>

#include "ops/cuda/hopper/attention_hopper.hpp"
#include "ops/cuda/hopper/attention_key_group.cuh"
#include "ops/cuda/hopper/attention_wide_key_group.cuh"
#include "ops/cuda/hopper/box_map.hpp"
#include "ops/cuda/launch.hpp"

namespace pipetrain::cuda::hopper {
namespace {

struct Maps {
  CUtensorMap keys, queries, douts;  // boxes of 64 columns
  int key_col;                       // the column of the first key head
};

// A single thread issues all loads.
template <class Tile>
class Loader {
 public:
  __device__ Loader(const BackwardView& view, const Maps& maps, Shared<Tile>& shared)
      : view_(view), maps_(maps), shared_(shared) {}

  __device__ void run() {
    int ticket = atomicAdd(view_.tickets, 1);
    for (int round = 0;; ++round) {
      const Block block = block_of_ticket<Tile>(view_, ticket);
      if (block.block < 0) return arrive(begin_round(block, round));
      bool has_keys = false;
      for_each_tile<Tile>(view_, block, [&](int head, int tile) {
        load_tile(block, head, tile);
        if (has_keys) return;  // the first tile is loaded while the previous block still needs its keys
        load_keys(block, round);
        has_keys = true;
      });
      if (!has_keys) load_keys(block, round);  // where no query sees these keys
      // As late as possible, but early enough to arrive before the last tile's products end.
      ticket = atomicAdd(view_.tickets, 1);
    }
  }

 private:
  static constexpr int dim = Tile::head_dim, value_dim = Tile::value_dim;
  static constexpr int boxes = Tile::columns / 64, value_boxes = Tile::value_columns / 64;

  // Where there are two buffers the keys overwrite those of two blocks ago, so they are copied while the last block is
  // computed. The values have a single buffer, which is free once the last block's last product with them is done.
  __device__ void load_keys(Block block, int round) {
    const int row = block.sequence * view_.kv_rows + block.block * Tile::keys, col = maps_.key_col + block.kv_head * dim;
    const int value_col = maps_.key_col + view_.kv_heads * dim + block.kv_head * value_dim;
    block.units = integers_per_unit(view_.largest + (block.sequence * view_.kv_heads + block.kv_head) * 2);
    Barrier& keys_full = begin_round(block, round);
    arrive_expecting(keys_full, Shared<Tile>::key_bytes);
    for (int box = 0; box < boxes; ++box)
      load_box(shared_.keys[round % Tile::key_buffers] + box * Tile::keys * row_bytes, maps_.keys, col + box * 64, row,
               keys_full);
    wait(shared_.values_empty, round % 2 ^ 1);
    arrive_expecting(shared_.values_full, Shared<Tile>::value_bytes);
    for (int box = 0; box < value_boxes; ++box)
      load_box(shared_.values + box * Tile::keys * row_bytes, maps_.keys, value_col + box * 64, row, shared_.values_full);
  }

  // Returns the barrier of the block's keys.
  __device__ Barrier& begin_round(const Block& block, int round) {
    const int buffer = round % Tile::key_buffers;
    wait(shared_.keys_empty[buffer], round / Tile::key_buffers % 2 ^ 1);
    shared_.blocks[buffer] = block;
    return shared_.keys_full[buffer];
  }

  __device__ void load_tile(const Block& block, int head, int tile) {
    constexpr int box_bytes = Tile::queries * row_bytes,
                  statistic_bytes = Tile::statistics * Tile::queries * static_cast<int>(sizeof(float));
    const int stage = at_ % Tile::query_stages, parity = at_ / Tile::query_stages % 2,
              row = block.sequence * view_.queries + tile * Tile::queries;
    const int dout_stage = at_ % Tile::dout_stages, dout_parity = at_ / Tile::dout_stages % 2;
    ++at_;
    wait(shared_.queries_empty[stage], parity ^ 1);
    arrive_expecting(shared_.queries_full[stage], Shared<Tile>::query_bytes + statistic_bytes);
    for (int box = 0; box < boxes; ++box)
      load_box(shared_.queries[stage] + box * box_bytes, maps_.queries, head * dim + box * 64, row,
               shared_.queries_full[stage]);
    load_bytes(shared_.statistics[stage],
               view_.statistics + tile_index<Tile>(view_, block, head, tile) * Tile::statistics * Tile::queries,
               statistic_bytes, shared_.queries_full[stage]);
    wait(shared_.douts_empty[dout_stage], dout_parity ^ 1);
    arrive_expecting(shared_.douts_full[dout_stage], Shared<Tile>::dout_bytes);
    for (int box = 0; box < value_boxes; ++box)
      load_box(shared_.douts[dout_stage] + box * box_bytes, maps_.douts, head * value_dim + box * 64, row,
               shared_.douts_full[dout_stage]);
  }

  const BackwardView& view_;
  const Maps& maps_;
  Shared<Tile>& shared_;
  int at_ = 0;  // the number of tiles before this one
};

// One warp for each group.
template <class Tile>
__device__ void add_query_sums(const BackwardView& view, Shared<Tile>& shared, int group) {
  const bool leads = threadIdx.x % 32 == 0;
  Block block;
  for (int round = 0; take_block(shared, round, block); ++round) {
    __syncwarp();
    if (leads) arrive(shared.keys_empty[round % Tile::key_buffers]);  // the block's description has been read
    for_each_tile<Tile>(view, block, [&](int head, int tile) {
      int* const to = view.query_sums + tile_index<Tile>(view, block, head, tile) * Tile::sums;
#pragma unroll
      for (int part = 0; part < Tile::sum_rounds; ++part) {
        arrive_at(sums_read + group, sums_threads);
        sync_at(sums_written + group, sums_threads);
        if (leads)
          add_integers(to + Tile::sum_box(group, part) * Tile::sums_of_box, shared.sums[group],
                       Tile::sums_of_box * static_cast<int>(sizeof(int)));
        __syncwarp();
      }
    });
  }
  if (leads) wait_for_writes();
}

template <class Tile>
__global__ void __launch_bounds__(threads, 1)
    attention_backward(const __grid_constant__ BackwardView view, const __grid_constant__ Maps maps) {
  extern __shared__ __align__(1024) char memory[];
  auto& shared = *reinterpret_cast<Shared<Tile>*>(memory);
  if (threadIdx.x == 0) {
    make_barrier(shared.values_full, 1), make_barrier(shared.values_empty, 2);
    for (Barrier& full : shared.keys_full) make_barrier(full, 1);
    for (Barrier& empty : shared.keys_empty) make_barrier(empty, 4);
    for (Barrier& full : shared.queries_full) make_barrier(full, 1);
    for (Barrier& empty : shared.queries_empty) make_barrier(empty, 2);
    for (Barrier& full : shared.douts_full) make_barrier(full, 1);
    for (Barrier& empty : shared.douts_empty) make_barrier(empty, 2);
    publish_barriers();
  }
  __syncthreads();
  wait_for_previous();
  // Makes the value uniform over the warp, which the compiler cannot prove by itself.
  const int warp = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 32, 0), group = warp / 4;
  if (group == 2) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Tile::loader_registers));
    if (warp == 8 && threadIdx.x % 32 == 0) Loader<Tile>(view, maps, shared).run();
    if (warp == 9 || warp == 10) add_query_sums<Tile>(view, shared, warp - 9);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Tile::key_group_registers));
    using Group = std::conditional_t<Tile::is_wide, WideKeyGroup<Tile>, KeyGroup<Tile>>;
    Group(view, shared, group).run();
  }
}

template <class Tile>
void run(cudaStream_t stream, const BackwardView& view, const AttentionBackwardArgs& args, int multiprocessors) {
  using Element = typename Tile::Element;
  preprocess<Tile>(stream, view, args);
  const Maps maps{.keys = box_map<Element>({args.kv.data, args.kv.cols(), args.kv.rows()}, Tile::keys),
                  .queries = box_map<Element>({args.q.data, args.q.cols(), args.q.rows()}, Tile::queries),
                  .douts = box_map<Element>({args.dout.data, args.dout.cols(), args.dout.rows()}, Tile::queries),
                  .key_col = static_cast<int>(args.kv.cols()) - view.kv_heads * (Tile::head_dim + Tile::value_dim)};
  constexpr int bytes = static_cast<int>(sizeof(Shared<Tile>));
  static_assert(bytes <= 227 * 1024);  // the most shared memory of a block
  cudaFuncSetAttribute(attention_backward<Tile>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  const int blocks = key_blocks<Tile>(view) * view.batch * view.kv_heads * view.parts;
  launch(stream, attention_backward<Tile>, static_cast<unsigned>(std::min(blocks, multiprocessors)), threads,
         static_cast<std::size_t>(bytes), view, maps);
  postprocess<Tile>(stream, view);
}

}  // namespace

void run_backward(cudaStream_t stream, const BackwardView& view, const AttentionBackwardArgs& args, std::int64_t head_dim,
                  int multiprocessors) {
  const auto with = [&](auto element, auto limited) {
    using Element = decltype(element);
    constexpr bool has_begins = decltype(limited)::value;
    if (head_dim == 64) return run<Tile<64, Element, has_begins>>(stream, view, args, multiprocessors);
    if (head_dim == 96) return run<Tile<96, Element, has_begins>>(stream, view, args, multiprocessors);
    if (head_dim == 128) return run<Tile<128, Element, has_begins>>(stream, view, args, multiprocessors);
    if (head_dim == 192) return run<Tile<192, Element, has_begins>>(stream, view, args, multiprocessors);
    run<Tile<256, Element, has_begins>>(stream, view, args, multiprocessors);
  };
  const auto of_type = [&](auto limited) {
    return args.q.dtype == DType::bf16 ? with(__nv_bfloat16{}, limited) : with(__half{}, limited);
  };
  return view.has_begins() ? of_type(std::true_type{}) : of_type(std::false_type{});
}

}  // namespace pipetrain::cuda::hopper
