// How the blocks of a grouped product take tiles and pass their operands through shared memory: one warp loads them in steps,
// and two groups of warps multiply them, each 64 rows of every tile. Only for .cu files.
#pragma once

#include "ops/cuda/hopper/bulk_copy.cuh"
#include "ops/cuda/hopper/grouped_tiles.cuh"
#include "ops/cuda/hopper/wgmma.cuh"

namespace pipetrain::cuda::hopper {

struct GroupedShared {
  alignas(1024) char a[grouped::stages][grouped::a_bytes];
  alignas(1024) char b[grouped::stages][grouped::b_bytes];
  Barrier full[grouped::stages], empty[grouped::stages];
  Barrier taken[2], begun[2];
  int indices[2];  // of the tiles that the block has taken, in turn; -1 after the last
};

// All threads of the block must call it, and wait for each other before they use the barriers.
template <class Shared>
__device__ void make_grouped_barriers(Shared& shared, int readers = 8) {
  if (threadIdx.x != 0) return;
  for (Barrier& full : shared.full) make_barrier(full, 1);
  for (Barrier& empty : shared.empty) make_barrier(empty, 2);
  for (Barrier& taken : shared.taken) make_barrier(taken, 1);
  for (Barrier& begun : shared.begun) make_barrier(begun, readers);
  publish_barriers();
}

// Counts the steps of all tiles of a block, whose operands pass through the buffers in turn.
struct Stage {
  int index = 0, parity = 0;
  __device__ void advance() {
    if (++index == grouped::stages) index = 0, parity ^= 1;
  }
};

// Waits until a stage's buffers are free. Returns the barrier that counts the bytes of the copies into them.
template <class Shared>
__device__ Barrier& begin_load(Shared& shared, const Stage& stage, int bytes) {
  wait(shared.empty[stage.index], stage.parity ^ 1);
  arrive_expecting(shared.full[stage.index], bytes);
  return shared.full[stage.index];
}

// One thread takes tiles and loads their operands by load(index, stage), which advances the stage over the tile's steps. A
// block takes its next tile when it begins one, because the time of a tile depends on its rows. tickets: see GroupedView.
template <class Shared, class Load>
__device__ void hand_out_tiles(int* tickets, int count, Shared& shared, const Load& load) {
  const int blocks = static_cast<int>(gridDim.x);
  int index = static_cast<int>(blockIdx.x);
  Stage stage;
  for (int round = 0;; ++round) {
    const int slot = round % 2;
    wait(shared.begun[slot], round / 2 % 2 ^ 1);
    shared.indices[slot] = index < count ? index : -1;
    arrive(shared.taken[slot]);
    if (index >= count) break;
    const int next = blocks + atomicAdd(tickets, 1);
    load(index, stage);
    index = next;
  }
  if (atomicAdd(tickets + 1, 1) == blocks - 1) tickets[0] = tickets[1] = 0;
}

// TileReader is the part of the pipeline that warps keep which take tiles: those that multiply, and those that copy sums.
template <class Shared>
class TileReader {
 protected:
  __device__ TileReader(Shared& shared, int group) : shared_(shared), group_(group) {}

  // Calls compute(tile) with each tile of the block.
  template <class Tiles, class Compute>
  __device__ __forceinline__ void for_each_tile(const Tiles& tiles, const Compute& compute) {
    for (int round = 0;; ++round) {
      const int index = take(round);
      if (index < 0) return;
      compute(tiles.at(index));
    }
  }

  __device__ void release(int stage) {
    if (threadIdx.x % 128 == 0) arrive(shared_.empty[stage]);
  }

  // Calls multiply(step) for each step of a tile, at least one, once its operands have arrived: it begins products of them. A
  // stage is released when those of the next one have begun. Returns when all products are complete.
  template <class Multiply>
  __device__ __forceinline__ void multiply_steps(int steps, const Multiply& multiply) {
    int before = 0, step = 0;
    do {
      wait(shared_.full[stage_.index], stage_.parity);
      multiply(step);
      end_group();
      wait_for_groups_but<1>();
      if (step > 0) release(before);
      before = stage_.index;
      stage_.advance();
    } while (++step < steps);
    wait_for_groups_but<0>();
    release(before);
  }

  // Passes over the steps of rows that do not exist.
  __device__ void skip(int steps) {
    for (int step = 0; step < steps; ++step, stage_.advance()) {
      wait(shared_.full[stage_.index], stage_.parity);
      release(stage_.index);
    }
  }

  Shared& shared_;
  int group_;
  Stage stage_;

 private:
  // Returns the index of the block's next tile, or -1.
  __device__ int take(int round) {
    const int slot = round % 2;
    wait(shared_.taken[slot], round / 2 % 2);
    const int index = shared_.indices[slot];
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive(shared_.begun[slot]);
    return index;
  }
};

}  // namespace pipetrain::cuda::hopper
