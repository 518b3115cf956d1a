// The groups of warps of attention's backward share this: the loop over blocks of keys and their tiles of queries, and the
// gradients of keys and values that a group sums up and stores. Only for .cu files.
#pragma once

#include "ops/cuda/hopper/attention_blocks.cuh"
#include "ops/cuda/hopper/wgmma.cuh"

namespace pipetrain::cuda::hopper {

// Group is the derived class: its step() processes one tile of queries. A group sums dK of 64 keys and at most 192
// columns, and dV of at most 128.
template <class Group, class Tile>
class GradientGroup {
 public:
  using Element = typename Tile::Element;

  __device__ GradientGroup(const BackwardView& view, Shared<Tile>& shared, int group)
      : view_(view), shared_(shared), group_(group), thread_(static_cast<int>(threadIdx.x) % group_threads) {}

  __device__ __forceinline__ void run() {
    Block block;
#pragma unroll 1
    for (int round = 0; take_block(shared_, round, block); ++round) {
#pragma unroll
      for (float& grad : key_grad_) grad = 0;
#pragma unroll
      for (float& grad : value_grad_) grad = 0;
      const int first = first_tile<Tile>(view_, block), tiles = end_tile<Tile>(view_, block);
      const int end = at_ + (tiles - first) * (view_.group() / view_.parts);
      keys_ = shared_address(shared_.keys[round % Tile::key_buffers]);
      wait(shared_.values_full, round % 2);
      int tile = first;
#pragma unroll 1
      for (; at_ < end; ++at_) {
        static_cast<Group*>(this)->step(tile * Tile::queries + view_.ahead() - block.block * Tile::keys,
                                        block.block * Tile::keys, block.units, at_ + 1 == end);
        if (++tile == tiles) tile = first;
      }
      // For a block without tiles, the groups synchronise here, so that all threads have read the block and
      // seen its keys and values arrive before one of them frees their buffers.
      if (tiles == first) {
        sync_at(scores_written, 2 * group_threads);
        release(shared_.values_empty);
      }
      release(shared_.keys_empty[round % Tile::key_buffers]);
      store(block);
    }
  }

 protected:
  static constexpr int dim = Tile::head_dim, columns = Tile::columns, value_dim = Tile::value_dim;
  static constexpr int shares = Tile::is_wide ? 2 : 1;  // groups that divide the columns
  // A thread's elements of 64 keys and the group's columns.
  static constexpr int key_grads = columns / shares / 2, value_grads = Tile::value_columns / shares / 2;

  __device__ __forceinline__ int lane() const { return thread_ % 32; }
  __device__ __forceinline__ int row() const { return 16 * (thread_ / 32) + lane() / 4; }
  __device__ __forceinline__ int col() const { return 2 * (lane() % 4); }
  __device__ __forceinline__ void release(Barrier& barrier) const {
    if (thread_ == 0) arrive(barrier);
  }

  __device__ __forceinline__ void give_sums(const float (&dq)[32], float upper, float lower) {
    sync_at(sums_read + group_, sums_threads);
    int4* const to = reinterpret_cast<int4*>(shared_.sums[group_]) + thread_;
#pragma unroll
    for (int i = 0; i < 32; i += 4)
      to[i / 4 * group_threads] = make_int4(__float2int_rn(dq[i] * upper), __float2int_rn(dq[i + 1] * upper),
                                            __float2int_rn(dq[i + 2] * lower), __float2int_rn(dq[i + 3] * lower));
    publish_shared();
    arrive_at(sums_written + group_, sums_threads);
  }

  const BackwardView& view_;
  Shared<Tile>& shared_;
  const int group_, thread_;
  int at_ = 0;              // the number of tiles before this one
  std::uint32_t keys_ = 0;  // the shared address of this block's keys
  float key_grad_[key_grads], value_grad_[value_grads];

 private:
  // Those of the elements that are in the head's columns.
  static constexpr int stored_keys = dim / shares / 2, stored_values = value_dim / shares / 2;

  // The first key, counted in the block, and the first column that the group sums.
  __device__ __forceinline__ int first_key() const { return Tile::is_wide ? 0 : 64 * group_; }
  __device__ __forceinline__ int first_col() const { return Tile::is_wide ? 2 * key_grads * group_ : 0; }

  __device__ __forceinline__ void store(const Block& block) const {
    const int key = block.block * Tile::keys + first_key() + row();
    if (view_.key_sums != nullptr) return store_part(block, key);
    const std::int64_t at = static_cast<std::int64_t>(block.sequence) * view_.dkv_rows + key;
    Element* const to = static_cast<Element*>(view_.dkv) + at * view_.dkv_cols + first_col();
    const bool there[2] = {key < view_.keys, key + 8 < view_.keys};
    store_rounded<stored_keys>(to + block.kv_head * dim, key_grad_, view_.scale, there);
    store_rounded<stored_values>(to + view_.kv_heads * dim + block.kv_head * value_dim, value_grad_, 1, there);
  }

  // there: whether the sequence has the thread's two rows
  template <int stored, int grads>
  __device__ __forceinline__ void store_rounded(Element* to, const float (&grad)[grads], float factor,
                                                const bool (&there)[2]) const {
    to += 8 * (lane() % 4);
#pragma unroll
    for (int i = 0; i < stored; i += 16)
#pragma unroll
      for (int low = 0; low < 2; ++low) {
        const auto word = [&](int j) {
          const int at = i + 4 * j + 2 * low;
          return pack<Element>(grad[at] * factor, grad[at + 1] * factor);
        };
        const uint4 run = run_of_lane(word(0), word(1), word(2), word(3));
        if (there[low]) *reinterpret_cast<uint4*>(to + 2 * i + 8 * low * view_.dkv_cols) = run;
      }
  }

  __device__ __forceinline__ void store_part(const Block& block, int key) const {
    const std::int64_t rows = static_cast<std::int64_t>(view_.batch) * view_.sum_rows,
                       cols = view_.kv_heads * (dim + value_dim);
    const std::int64_t at = block.part * rows + static_cast<std::int64_t>(block.sequence) * view_.sum_rows + key;
    const bool adds = view_.key_sums == view_.added;
    float* const to = view_.key_sums + at * cols + first_col() + col();
    float* const to_keys = to + block.kv_head * dim;
    float* const to_values = to + view_.kv_heads * dim + block.kv_head * value_dim;
#pragma unroll
    for (int i = 0; i < stored_keys; i += 2) {
      if (key + i / 2 % 2 * 8 >= view_.keys) continue;
      const std::int64_t pair = i / 4 * 8 + i / 2 % 2 * 8 * cols;
      put(to_keys + pair, make_float2(key_grad_[i] * view_.scale, key_grad_[i + 1] * view_.scale), adds);
      if (i < stored_values) put(to_values + pair, make_float2(value_grad_[i], value_grad_[i + 1]), adds);
    }
  }

  static __device__ __forceinline__ void put(float* to, float2 pair, bool adds) {
    auto& there = *reinterpret_cast<float2*>(to);
    if (adds) pair.x += there.x, pair.y += there.y;
    there = pair;
  }
};

// Writes 16-bit scores [keys, queries] to shared memory, a row of 128 bytes a key, for products. first: the shared address of
// the thread's first 16 bytes, swizzled; boxes of 64 queries are box_bytes apart.
template <int depth>
__device__ __forceinline__ void write_scores(std::uint32_t first, const std::uint32_t (&scores)[depth][4], int box_bytes) {
  // The swizzle is an exclusive or with bits that no addition here carries into, so that each address is
  // `first` xor a constant, and needs no register of its own.
#pragma unroll
  for (int k = 0; k < depth; ++k) {
    const std::uint32_t at =
        (first ^ static_cast<std::uint32_t>(2 * k % 8 * 16)) + static_cast<std::uint32_t>(2 * k / 8 * box_bytes);
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(scores[k][0]),
                 "r"(scores[k][1]), "r"(scores[k][2]), "r"(scores[k][3])
                 : "memory");
  }
}

}  // namespace pipetrain::cuda::hopper
