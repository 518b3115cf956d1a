// One group of four warps computes dK and dV of 64 keys and its share of dQ in attention's backward. Only for .cu files.
#pragma once

#include "ops/cuda/hopper/attention_blocks.cuh"
#include "ops/cuda/hopper/wgmma.cuh"

namespace pipetrain::cuda::hopper {

// One group of four warps: 64 keys of each block.
template <class Tile>
class KeyGroup {
 public:
  using Element = typename Tile::Element;

  __device__ KeyGroup(const BackwardView& view, Shared<Tile>& shared, int group)
      : view_(view), shared_(shared), group_(group), thread_(static_cast<int>(threadIdx.x) % group_threads) {}

  __device__ __forceinline__ void run() {
    Block block;
#pragma unroll 1
    for (int round = 0; take_block(shared_, round, block); ++round) {
#pragma unroll
      for (int i = 0; i < dim / 2; ++i) key_grad_[i] = value_grad_[i] = 0;
      const int first = first_tile<Tile>(view_, block), tiles = end_tile<Tile>(view_, block);
      const int end = at_ + (tiles - first) * (view_.group() / view_.parts);
      keys_ = shared_address(shared_.keys[round % 2]);
      wait(shared_.values_full, round % 2);
      int tile = first;
#pragma unroll 1
      for (; at_ < end; ++at_) {
        step(tile * Tile::queries + view_.ahead() - block.block * Tile::keys, block.block * Tile::keys, block.units,
             at_ + 1 == end);
        if (++tile == tiles) tile = first;
      }
      // For a block without tiles, the groups synchronise here, so that all threads have read the block and
      // seen its keys and values arrive before one of them frees their buffers.
      if (tiles == first) {
        sync_at(scores_written, 2 * group_threads);
        release(shared_.values_empty);
      }
      release(shared_.keys_empty[round % 2]);
      store(block);
    }
  }

 private:
  static constexpr int dim = Tile::head_dim, scores = Tile::queries / 2, depth_of_queries = Tile::queries / 16;
  using Operand = std::uint32_t[depth_of_queries][4];  // for products that sum over queries

  __device__ __forceinline__ int lane() const { return thread_ % 32; }
  __device__ __forceinline__ int row() const { return 16 * (thread_ / 32) + lane() / 4; }
  __device__ __forceinline__ int col() const { return 2 * (lane() % 4); }
  __device__ __forceinline__ void release(Barrier& barrier) const {
    if (thread_ == 0) arrive(barrier);
  }

  // Processes one tile of queries, possibly the block's last; its first query is `after` positions after the
  // block's first key.
  __device__ __forceinline__ void step(int after, int first_key, float units, bool last) {
    const int stage = at_ % Tile::stages, parity = at_ / Tile::stages % 2;
    const std::uint32_t queries = shared_address(shared_.queries[stage]), douts = shared_address(shared_.douts[stage]);
    float p[scores], dp[scores];  // [key, query]
    wait(shared_.queries_full[stage], parity);
    wait(shared_.douts_full[stage], parity);
    begin_products();
    multiply_by_keys(p, keys_, queries);
    multiply_by_keys(dp, shared_address(shared_.values), douts);
    wait_for_groups_but<1>();
    softmax(p, stage);
    if (after < Tile::keys) clear_before(p, after);
    if constexpr (Tile::has_begins) clear_before_begin(p, stage, first_key);
    Operand probabilities, dscores;
    if constexpr (dim == 128) {  // there are enough registers to round P before dP arrives
      round_to(probabilities, p);
      wait_for_groups_but<0>();
      if (last) release(shared_.values_empty);
      add_to(value_grad_, probabilities, douts);
      multiply_differences(dscores, p, dp, stage);
    } else {
      wait_for_groups_but<0>();
      if (last) release(shared_.values_empty);
      round_to(probabilities, p);
      multiply_differences(dscores, p, dp, stage);
      add_to(value_grad_, probabilities, douts);
    }
    write(dscores);
    const float* inverse = shared_.statistics[stage] + inverse_norm * Tile::queries + (dim == 64 ? 64 * group_ : 0) + row();
    const float upper = units * inverse[0], lower = units * inverse[8];
    sync_at(scores_written, 2 * group_threads);
    float dq[32];  // [query, column] of this group's half
    begin_products();
    multiply_dscores(dq);
    add_to<false>(key_grad_, dscores, queries);
    wait_for_groups_but<1>();
    release(shared_.douts_empty[stage]);
    give_sums(dq, upper, lower);
    wait_for_groups_but<0>();
    release(shared_.queries_empty[stage]);
  }

  // out [64 keys, queries] = this group's rows of `keys` . `queries`^T
  __device__ __forceinline__ void multiply_by_keys(float (&out)[scores], std::uint32_t keys, std::uint32_t queries) {
    const std::uint32_t a = operand(keys + static_cast<std::uint32_t>(64 * row_bytes * group_)), b = operand(queries);
    unrolled<dim / 16>([&](auto k) {
      constexpr int at_a = k / 4 * Tile::keys * row_bytes + k % 4 * 32, at_b = k / 4 * Tile::queries * row_bytes + k % 4 * 32;
      multiply(Element{}, out, a, b, DescriptorOffsets<at_a, at_b, Along::depth, Along::depth, (k > 0)>{});
    });
    end_group();
  }

  __device__ __forceinline__ void softmax(float (&p)[scores], int stage) const {
    const float* sums = shared_.statistics[stage] + log2_sum * Tile::queries + col();
    const float factor = view_.scale * log2_e;
#pragma unroll
    for (int j = 0; j < scores; j += 4) {
      const float2 sum = *reinterpret_cast<const float2*>(sums + 2 * j);
      p[j] = power_of_two(fmaf(p[j], factor, -sum.x)), p[j + 1] = power_of_two(fmaf(p[j + 1], factor, -sum.y));
      p[j + 2] = power_of_two(fmaf(p[j + 2], factor, -sum.x)), p[j + 3] = power_of_two(fmaf(p[j + 3], factor, -sum.y));
    }
  }

  __device__ __forceinline__ void clear_before(float (&p)[scores], int after) const {
    const int ahead = 64 * group_ + row() - after - col();  // earlier queries do not attend to the key
#pragma unroll
    for (int i = 0; i < scores; ++i)
      if (2 * (i / 4 * 4) + i % 2 < ahead + 8 * (i / 2 % 2)) p[i] = 0;
  }

  __device__ __forceinline__ void clear_before_begin(float (&p)[scores], int stage, int first_key) const {
    const int* begins = reinterpret_cast<const int*>(shared_.statistics[stage] + begin * Tile::queries);
    if (begins[Tile::queries - 1] <= first_key) return;  // all queries of the tile see the block's first key
    begins += col();
    const int key = first_key + 64 * group_ + row();
#pragma unroll
    for (int j = 0; j < scores; j += 4) {
      const int2 first = *reinterpret_cast<const int2*>(begins + 2 * j);
      if (key < first.x) p[j] = 0;
      if (key < first.y) p[j + 1] = 0;
      if (key + 8 < first.x) p[j + 2] = 0;
      if (key + 8 < first.y) p[j + 3] = 0;
    }
  }

  static __device__ __forceinline__ void round_to(Operand& out, const float (&p)[scores]) {
#pragma unroll
    for (int i = 0; i < scores; i += 2) out[i / 8][i % 8 / 2] = pack<Element>(p[i], p[i + 1]);
  }

  // dS = P (dP - delta)
  __device__ __forceinline__ void multiply_differences(Operand& out, const float (&p)[scores], const float (&dp)[scores],
                                                       int stage) const {
    const float* deltas = shared_.statistics[stage] + delta * Tile::queries + col();
#pragma unroll
    for (int j = 0; j < scores; j += 4) {
      const float2 d = *reinterpret_cast<const float2*>(deltas + 2 * j);
      out[j / 8][j % 8 / 2] = pack<Element>(p[j] * (dp[j] - d.x), p[j + 1] * (dp[j + 1] - d.y));
      out[j / 8][j % 8 / 2 + 1] = pack<Element>(p[j + 2] * (dp[j + 2] - d.x), p[j + 3] * (dp[j + 3] - d.y));
    }
  }

  // grad [64 keys, D] += `scores` [64 keys, queries] . `queries`
  template <bool begins = true>
  static __device__ __forceinline__ void add_to(float (&grad)[dim / 2], const Operand& by_query, std::uint32_t queries) {
    const std::uint32_t b = operand(queries, Tile::queries * row_bytes);
    if constexpr (begins) begin_products();
    unrolled<depth_of_queries>([&](auto k) {
      multiply(Element{}, grad, by_query[k], b, DescriptorOffsets<0, k * 16 * row_bytes, Along::depth, Along::sides, true>{});
    });
    end_group();
  }

  __device__ __forceinline__ void write(const Operand& dscores) {
    const int key = 64 * group_ + 16 * (thread_ / 32) + lane() % 16;
    // The swizzle is an exclusive or with bits that no addition here carries into, so that each address is
    // `first` xor a constant, and needs no register of its own.
    const std::uint32_t first =
        shared_address(shared_.dscores[at_ % 2]) + static_cast<std::uint32_t>(key * row_bytes + (lane() / 16 ^ key % 8) * 16);
#pragma unroll
    for (int k = 0; k < depth_of_queries; ++k) {
      const std::uint32_t at = (first ^ static_cast<std::uint32_t>(2 * k % 8 * 16)) +
                               static_cast<std::uint32_t>(2 * k / 8 * (Tile::keys * row_bytes));
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(dscores[k][0]),
                   "r"(dscores[k][1]), "r"(dscores[k][2]), "r"(dscores[k][3])
                   : "memory");
    }
    publish_shared();
  }

  // dq = dS . K: with heads of 128 a group takes 64 columns, with heads of 64 it takes 64 queries.
  __device__ __forceinline__ void multiply_dscores(float (&dq)[32]) {
    const std::uint32_t half = static_cast<std::uint32_t>(group_ * Tile::keys * row_bytes);
    const std::uint32_t a = operand(shared_address(shared_.dscores[at_ % 2]) + (dim == 64 ? half : 0)),
                        b = operand(keys_ + (dim == 128 ? half : 0));
    unrolled<Tile::keys / 16>([&](auto k) {
      constexpr int at = k * 16 * row_bytes;
      multiply(Element{}, dq, a, b, DescriptorOffsets<at, at, Along::sides, Along::sides, (k > 0)>{});
    });
    end_group();
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

  __device__ __forceinline__ void store(const Block& block) const {
    const int key = block.block * Tile::keys + 64 * group_ + row();
    if (view_.key_sums != nullptr) return store_part(block, key);
    const std::int64_t at = static_cast<std::int64_t>(block.sequence) * view_.dkv_rows + key;
    Element* const key_grad = static_cast<Element*>(view_.dkv) + at * view_.dkv_cols + block.kv_head * dim;
    store_rounded(key_grad, key_grad_, view_.scale);
    store_rounded(key_grad + view_.kv_heads * dim, value_grad_, 1);
  }

  __device__ __forceinline__ void store_rounded(Element* to, const float (&grad)[dim / 2], float factor) const {
    to += 8 * (lane() % 4);
#pragma unroll
    for (int i = 0; i < dim / 2; i += 16)
#pragma unroll
      for (int low = 0; low < 2; ++low) {
        const auto word = [&](int j) {
          const int at = i + 4 * j + 2 * low;
          return pack<Element>(grad[at] * factor, grad[at + 1] * factor);
        };
        *reinterpret_cast<uint4*>(to + 2 * i + 8 * low * view_.dkv_cols) = run_of_lane(word(0), word(1), word(2), word(3));
      }
  }

  __device__ __forceinline__ void store_part(const Block& block, int key) const {
    const std::int64_t rows = static_cast<std::int64_t>(view_.batch) * view_.sum_rows, cols = view_.kv_heads * 2 * dim;
    const std::int64_t at = block.part * rows + static_cast<std::int64_t>(block.sequence) * view_.sum_rows + key;
    const bool adds = view_.key_sums == view_.added;
    float* const to = view_.key_sums + at * cols + block.kv_head * dim + col();
#pragma unroll
    for (int i = 0; i < dim / 2; i += 2) {
      float* const pair = to + i / 4 * 8 + i / 2 % 2 * 8 * cols;
      put(pair, make_float2(key_grad_[i] * view_.scale, key_grad_[i + 1] * view_.scale), adds);
      put(pair + view_.kv_heads * dim, make_float2(value_grad_[i], value_grad_[i + 1]), adds);
    }
  }

  static __device__ __forceinline__ void put(float* to, float2 pair, bool adds) {
    auto& there = *reinterpret_cast<float2*>(to);
    if (adds) pair.x += there.x, pair.y += there.y;
    there = pair;
  }

  const BackwardView& view_;
  Shared<Tile>& shared_;
  const int group_, thread_;
  int at_ = 0;              // the number of tiles before this one
  std::uint32_t keys_ = 0;  // the shared address of this block's keys
  float key_grad_[dim / 2], value_grad_[dim / 2];
};

}  // namespace pipetrain::cuda::hopper
