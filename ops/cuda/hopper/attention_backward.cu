// Attention's backward with products of warp groups: two groups of warps hold dK and dV of 64 keys each, as in FlashAttention-3
// (Shah et al. 2024, arXiv 2407.08608), while one warp loads what they read and two add what they give to dQ.
#include <cuda_runtime.h>

#include <algorithm>

#include "ops/cuda/hopper/attention_hopper.hpp"
#include "ops/cuda/hopper/attention_key_group.cuh"
#include "ops/cuda/hopper/attention_sums.hpp"
#include "ops/cuda/hopper/box_map.hpp"
#include "ops/cuda/launch.hpp"

namespace pipetrain::cuda::hopper {
namespace {

struct Maps {
  CUtensorMap keys, queries, douts;  // boxes of 64 columns
  int key_col;                       // of the first key head
};

template <class Tile>
__device__ void load_blocks(const BackwardView& view, const Maps& maps, Shared<Tile>& shared) {
  constexpr int dim = Tile::head_dim, boxes = dim / 64;
  int at = 0;
  Block block;
  for (int round = 0; block_of_round<Tile>(view, round, block); ++round) {
    const int first_row = block.sequence * view.queries, key_row = block.sequence * view.kv_rows + block.block * Tile::keys;
    wait(shared.keys_empty, round % 2 ^ 1);
    arrive_expecting(shared.keys_full, 2 * Shared<Tile>::key_bytes);
    for (int box = 0; box < boxes; ++box) {
      const int to = box * Tile::keys * row_bytes, key_col = maps.key_col + block.kv_head * dim + box * 64;
      load_box(shared.keys + to, maps.keys, key_col, key_row, shared.keys_full);
      load_box(shared.values + to, maps.keys, key_col + view.kv_heads * dim, key_row, shared.keys_full);
    }
    for_each_tile<Tile>(view, block, [&](int head, int tile) {
      constexpr int box_bytes = Tile::queries * row_bytes,
                    statistic_bytes = Tile::statistics * Tile::queries * static_cast<int>(sizeof(float));
      const int stage = at % Tile::stages, parity = at / Tile::stages % 2, row = first_row + tile * Tile::queries;
      wait(shared.queries_empty[stage], parity ^ 1);
      arrive_expecting(shared.queries_full[stage], Shared<Tile>::query_bytes + statistic_bytes);
      for (int box = 0; box < boxes; ++box)
        load_box(shared.queries[stage] + box * box_bytes, maps.queries, head * dim + box * 64, row, shared.queries_full[stage]);
      load_bytes(shared.statistics[stage],
                 view.statistics + tile_index<Tile>(view, block, head, tile) * Tile::statistics * Tile::queries,
                 statistic_bytes, shared.queries_full[stage]);
      wait(shared.douts_empty[stage], parity ^ 1);
      arrive_expecting(shared.douts_full[stage], Shared<Tile>::query_bytes);
      for (int box = 0; box < boxes; ++box)
        load_box(shared.douts[stage] + box * box_bytes, maps.douts, head * dim + box * 64, row, shared.douts_full[stage]);
      ++at;
    });
  }
}

// One warp a group.
template <class Tile>
__device__ void add_query_sums(const BackwardView& view, Shared<Tile>& shared, int group) {
  const bool leads = threadIdx.x % 32 == 0;
  Block block;
  for (int round = 0; block_of_round<Tile>(view, round, block); ++round)
    for_each_tile<Tile>(view, block, [&](int head, int tile) {
      pass(sums_read + group, sums_threads);
      meet(sums_written + group, sums_threads);
      if (leads)
        add_integers(view.query_sums + (tile_index<Tile>(view, block, head, tile) * 2 + group) * Tile::sums, shared.sums[group],
                     Tile::sums * static_cast<int>(sizeof(int)));
      __syncwarp();
    });
  if (leads) wait_for_additions();
}

template <class Tile>
__global__ void __launch_bounds__(threads, 1)
    attention_backward(const __grid_constant__ BackwardView view, const __grid_constant__ Maps maps) {
  extern __shared__ __align__(1024) char memory[];
  auto& shared = *reinterpret_cast<Shared<Tile>*>(memory);
  if (threadIdx.x == 0) {
    make_barrier(shared.keys_full, 1), make_barrier(shared.keys_empty, 2);
    for (int i = 0; i < Tile::stages; ++i) {
      make_barrier(shared.queries_full[i], 1), make_barrier(shared.queries_empty[i], 2);
      make_barrier(shared.douts_full[i], 1), make_barrier(shared.douts_empty[i], 2);
    }
    publish_barriers();
  }
  __syncthreads();
  wait_for_previous();
  // The same in a whole warp, which the compiler does not see by itself.
  const int warp = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 32, 0), group = warp / 4;
  if (group == 2) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (warp == 8 && threadIdx.x % 32 == 0) load_blocks<Tile>(view, maps, shared);
    if (warp == 9 || warp == 10) add_query_sums<Tile>(view, shared, warp - 9);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    KeyGroup<Tile>(view, shared, group).run();
  }
}

template <class Tile>
void run(cudaStream_t stream, const BackwardView& view, const HopperBackward& args, int multiprocessors) {
  using Element = typename Tile::Element;
  begin_sums<Tile>(stream, view, args);
  const Maps maps{.keys = box_map<Element>({args.kv.data, args.kv.cols(), args.kv.rows()}, Tile::keys),
                  .queries = box_map<Element>({args.q.data, args.q.cols(), args.q.rows()}, Tile::queries),
                  .douts = box_map<Element>({args.dout.data, args.dout.cols(), args.dout.rows()}, Tile::queries),
                  .key_col = static_cast<int>(args.kv.cols()) - 2 * view.kv_heads * Tile::head_dim};
  const int bytes = static_cast<int>(sizeof(Shared<Tile>));
  cudaFuncSetAttribute(attention_backward<Tile>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  const int blocks = view.keys / Tile::keys * view.batch * view.kv_heads * view.parts;
  launch(stream, attention_backward<Tile>, static_cast<unsigned>(std::min(blocks, multiprocessors)), threads,
         static_cast<std::size_t>(bytes), view, maps);
  end_sums<Tile>(stream, view);
}

}  // namespace

void run_backward(cudaStream_t stream, const BackwardView& view, const HopperBackward& args, int multiprocessors) {
  const bool wide = args.shape.head_dim == 128;
  const auto with = [&](auto element, auto isolates) {
    using Element = decltype(element);
    constexpr bool documents = decltype(isolates)::value;
    return wide ? run<Tile<128, Element, documents>>(stream, view, args, multiprocessors)
                : run<Tile<64, Element, documents>>(stream, view, args, multiprocessors);
  };
  const auto of_type = [&](auto isolates) {
    return args.q.dtype == DType::bf16 ? with(__nv_bfloat16{}, isolates) : with(__half{}, isolates);
  };
  return view.documents != nullptr ? of_type(std::true_type{}) : of_type(std::false_type{});
}

}  // namespace pipetrain::cuda::hopper
