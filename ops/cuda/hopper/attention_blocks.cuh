// The division of attention's backward on Hopper GPUs: blocks of keys, the tiles of queries that each block
// meets, and the memory that the warps of a CTA share. Only for .cu files.
#pragma once

#include "ops/cuda/hopper/attention_backward.cuh"
#include "ops/cuda/hopper/bulk_copy.cuh"

namespace pipetrain::cuda::hopper {

inline constexpr int row_bytes = 128;  // bytes in a row of a box of 64 columns
inline constexpr int group_threads = 128, threads = 3 * group_threads;
// Barriers by number: scores_written: both groups have written dS, or have taken a block without tiles;
// sums_written + g: group g has written its sums of dQ; sums_read + g: they have been read.
inline constexpr int scores_written = 1, sums_written = 2, sums_read = 4;
inline constexpr int sums_threads = group_threads + 32;

// The keys of one block, and the query heads that it meets.
struct Block {
  int block, sequence, kv_head, part;  // block: below 0 after the last
  float units = 0;                     // integers_per_unit() for its keys and values
};

template <class Tile>
struct Shared {
  static constexpr int key_bytes = Tile::keys * Tile::columns * 2, value_bytes = Tile::keys * Tile::value_columns * 2;
  static constexpr int query_bytes = Tile::queries * Tile::columns * 2, dout_bytes = Tile::queries * Tile::value_columns * 2;
  static constexpr int score_bytes = Tile::queries * Tile::keys * 2;
  alignas(1024) char keys[Tile::key_buffers][key_bytes];  // for this round, and the next where there are two
  alignas(1024) char values[value_bytes];
  alignas(1024) char queries[Tile::query_stages][query_bytes];
  alignas(1024) char douts[Tile::dout_stages][dout_bytes];
  // dS^T of this tile and the next, a row per key; with wide tiles then P^T of both.
  alignas(1024) char scores[Tile::is_wide ? 4 : 2][score_bytes];
  alignas(1024) int sums[2][Tile::sums_of_box];
  alignas(128) float statistics[Tile::query_stages][Tile::statistics * Tile::queries];
  Block blocks[Tile::key_buffers];  // those of `keys`
  Barrier keys_full[Tile::key_buffers], keys_empty[Tile::key_buffers], values_full, values_empty;
  Barrier queries_full[Tile::query_stages], queries_empty[Tile::query_stages];
  Barrier douts_full[Tile::dout_stages], douts_empty[Tile::dout_stages];
};

// Returns the block of a ticket. Tickets go section by section, within which longer blocks come first: the data
// that a section reads and adds to stays in the cache, and the last blocks that CTAs take are short. No bit
// depends on which CTA takes a block.
template <class Tile>
__device__ __forceinline__ Block block_of_ticket(const BackwardView& view, int ticket) {
  const int blocks = key_blocks<Tile>(view), sections = view.batch * view.kv_heads * view.parts / view.section;
  const int section = ticket / (blocks * view.section), rest = ticket % (blocks * view.section);
  if (section >= sections) return {.block = -1, .sequence = 0, .kv_head = 0, .part = 0};
  const int plane = section * view.section + rest % view.section, head = plane / view.parts;
  return {.block = rest / view.section,
          .sequence = head / view.kv_heads,
          .kv_head = head % view.kv_heads,
          .part = plane % view.parts};
}

// Waits for a CTA's block of this round and its keys, but not for its values; returns no block after the last.
template <class Tile>
__device__ __forceinline__ bool take_block(Shared<Tile>& shared, int round, Block& block) {
  wait(shared.keys_full[round % Tile::key_buffers], round / Tile::key_buffers % 2);
  block = shared.blocks[round % Tile::key_buffers];
  if constexpr (!Tile::has_parts) block.part = 0;  // frees a register
  return block.block >= 0;
}

// Returns the first tile of queries that attends to a block's keys.
template <class Tile>
__device__ __forceinline__ int first_tile(const BackwardView& view, const Block& block) {
  return max(0, block.block * Tile::keys - view.ahead()) / Tile::queries;
}

// Returns the end of the tiles of queries that attend to a block's keys.
template <class Tile>
__device__ __forceinline__ int end_tile(const BackwardView& view, const Block& block) {
  if constexpr (Tile::has_begins) return view.ends[block.sequence * key_blocks<Tile>(view) + block.block];
  return query_tiles<Tile>(view);
}

// Calls body(head, tile) for the tiles of queries that a block's keys meet, in order.
template <class Tile, class Body>
__device__ __forceinline__ void for_each_tile(const BackwardView& view, const Block& block, Body body) {
  const int heads = view.group() / (Tile::has_parts ? view.parts : 1),
            first_head = block.kv_head * view.group() + (Tile::has_parts ? block.part * heads : 0);
  const int end = end_tile<Tile>(view, block);
  for (int head = first_head; head < first_head + heads; ++head)
    for (int tile = first_tile<Tile>(view, block); tile < end; ++tile) body(head, tile);
}

template <class Tile>
__device__ __forceinline__ std::int64_t tile_index(const BackwardView& view, const Block& block, int head, int tile) {
  return (static_cast<std::int64_t>(block.sequence) * view.heads + head) * query_tiles<Tile>(view) + tile;
}

}  // namespace pipetrain::cuda::hopper
