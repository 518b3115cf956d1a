// One group of four warps computes dK and dV of 64 keys and its share of dQ in attention's backward. Only for .cu files.
#pragma once

#include "ops/cuda/hopper/attention_gradient_group.cuh"
#include "ops/cuda/hopper/attention_scores.cuh"

namespace pipetrain::cuda::hopper {

// One group of four warps: 64 keys of each block, with heads of 64 to 192.
template <class Tile>
class KeyGroup : public GradientGroup<KeyGroup<Tile>, Tile> {
  using Base = GradientGroup<KeyGroup<Tile>, Tile>;
  friend Base;
  using Base::at_, Base::col, Base::columns, Base::dim, Base::group_, Base::key_grad_, Base::keys_, Base::lane, Base::release,
      Base::row, Base::shared_, Base::thread_, Base::value_dim, Base::value_grad_, Base::view_;

 public:
  using Element = typename Tile::Element;
  using Base::Base;

 private:
  static constexpr int scores = Tile::queries / 2, depth_of_queries = Tile::queries / 16;
  using Operand = RoundedScores<scores>;  // for products that sum over queries

  // Processes one tile of queries, possibly the block's last; its first query is `after` positions after the
  // block's first key.
  __device__ __forceinline__ void step(int after, int first_key, float units, bool last) {
    if constexpr (columns == 192) return step_with_few_registers(after, first_key, units, last);
    const int stage = at_ % Tile::query_stages, parity = at_ / Tile::query_stages % 2;
    const std::uint32_t queries = shared_address(shared_.queries[stage]), douts = shared_address(shared_.douts[stage]);
    float p[scores], dp[scores];  // [key, query]
    wait(shared_.queries_full[stage], parity);
    wait(shared_.douts_full[stage], parity);
    begin_products();
    multiply_by_keys<dim>(p, keys_, queries);
    multiply_by_keys<value_dim>(dp, shared_address(shared_.values), douts);
    wait_for_groups_but<1>();
    make_probabilities(p, stage, after, first_key);
    const float* const deltas = statistic(stage, delta) + col();
    Operand probabilities, dscores;
    if constexpr (columns == 128) {  // there are enough registers to round P before dP arrives
      round_to<Element>(probabilities, p);
      wait_for_groups_but<0>();
      if (last) release(shared_.values_empty);
      add_to(value_grad_, probabilities, douts);
      multiply_differences<Element>(dscores, p, dp, deltas);
    } else {
      wait_for_groups_but<0>();
      if (last) release(shared_.values_empty);
      round_to<Element>(probabilities, p);
      multiply_differences<Element>(dscores, p, dp, deltas);
      add_to(value_grad_, probabilities, douts);
    }
    write(dscores);
    const float* inverse = statistic(stage, inverse_norm) + (dim == 64 ? 64 * group_ : 0) + row();
    const float upper = units * inverse[0], lower = units * inverse[8];
    sync_at(scores_written, 2 * group_threads);
    float dq[32];  // [query, column] of this group's half
    begin_products();
    multiply_dscores(dq);
    add_to<false>(key_grad_, dscores, queries);
    wait_for_groups_but<1>();
    release(shared_.douts_empty[stage]);
    this->give_sums(dq, upper, lower);
    wait_for_groups_but<0>();
    release(shared_.queries_empty[stage]);
  }

  // The same with three boxes of columns. Their gradients leave registers for P or dP, but not for both: P is rounded before dP
  // begins, dS takes its place, and the group's two boxes of dQ follow each other.
  __device__ __forceinline__ void step_with_few_registers(int after, int first_key, float units, bool last) {
    const int stage = at_ % Tile::query_stages, parity = at_ / Tile::query_stages % 2;
    const std::uint32_t queries = shared_address(shared_.queries[stage]), douts = shared_address(shared_.douts[stage]);
    Operand rounded;  // P, then dS
    {
      float p[scores];
      wait(shared_.queries_full[stage], parity);
      begin_products();
      multiply_by_keys<dim>(p, keys_, queries);
      wait_for_groups_but<0>();
      make_probabilities(p, stage, after, first_key);
      round_to<Element>(rounded, p);
    }
    {
      float dp[scores];
      wait(shared_.douts_full[stage], parity);
      begin_products();
      multiply_by_keys<value_dim>(dp, shared_address(shared_.values), douts);
      add_to<false>(value_grad_, rounded, douts);
      wait_for_groups_but<0>();
      if (last) release(shared_.values_empty);
      release(shared_.douts_empty[stage]);
      multiply_by_differences<Element>(rounded, dp, statistic(stage, delta) + col());
    }
    write(rounded);
    sync_at(scores_written, 2 * group_threads);
    float dq[32];  // [query, column] of one box
    begin_products();
    multiply_dscores(dq);
    add_to<false>(key_grad_, rounded, queries);
    const float* inverse = statistic(stage, inverse_norm) + row();
    const float upper = units * inverse[0], lower = units * inverse[8];
    wait_for_groups_but<1>();
    this->give_sums(dq, upper, lower);
    begin_products();
    multiply_own_dscores(dq);
    wait_for_groups_but<0>();
    release(shared_.queries_empty[stage]);
    this->give_sums(dq, upper, lower);
  }

  // Turns the scores of a tile into probabilities.
  __device__ __forceinline__ void make_probabilities(float (&p)[scores], int stage, int after, int first_key) const {
    softmax(p, statistic(stage, log2_sum) + col(), view_.scale * log2_e);
    if (after < Tile::keys) clear_before(p, 64 * group_ + row() - after - col());  // earlier queries do not attend to the key
    if constexpr (Tile::has_begins) {
      const int* const begins = reinterpret_cast<const int*>(statistic(stage, begin));
      if (begins[Tile::queries - 1] > first_key)  // some query of the tile does not see the block's first key
        clear_before_begin(p, begins + col(), first_key + 64 * group_ + row());
    }
  }

  __device__ __forceinline__ const float* statistic(int stage, Statistic which) const {
    return shared_.statistics[stage] + which * Tile::queries;
  }

  // out [64 keys, queries] = this group's rows of `keys` . `queries`^T, which have `depth` columns
  template <int depth>
  __device__ __forceinline__ void multiply_by_keys(float (&out)[scores], std::uint32_t keys, std::uint32_t queries) {
    const std::uint32_t a = operand(keys + static_cast<std::uint32_t>(64 * row_bytes * group_)), b = operand(queries);
    unrolled<depth / 16>([&](auto k) {
      constexpr int at_a = k / 4 * Tile::keys * row_bytes + k % 4 * 32, at_b = k / 4 * Tile::queries * row_bytes + k % 4 * 32;
      multiply(Element{}, out, a, b, DescriptorOffsets<at_a, at_b, Along::depth, Along::depth, (k > 0)>{});
    });
    end_group();
  }

  // grad [64 keys, 2 n] += `by_query` [64 keys, queries] . `queries`
  template <bool begins = true, int n>
  static __device__ __forceinline__ void add_to(float (&grad)[n], const Operand& by_query, std::uint32_t queries) {
    const std::uint32_t b = operand(queries, Tile::queries * row_bytes);
    if constexpr (begins) begin_products();
    unrolled<depth_of_queries>([&](auto k) {
      multiply(Element{}, grad, by_query[k], b, DescriptorOffsets<0, k * 16 * row_bytes, Along::depth, Along::sides, true>{});
    });
    end_group();
  }

  __device__ __forceinline__ void write(const Operand& dscores) {
    const int key = 64 * group_ + 16 * (thread_ / 32) + lane() % 16;
    write_scores(
        shared_address(shared_.scores[at_ % 2]) + static_cast<std::uint32_t>(key * row_bytes + (lane() / 16 ^ key % 8) * 16),
        dscores, Tile::keys * row_bytes);
    publish_shared();
  }

  // dq = dS . K: with 128 or 192 columns a group takes 64 of the first 128, with 64 columns it takes 64 queries.
  __device__ __forceinline__ void multiply_dscores(float (&dq)[32]) {
    const std::uint32_t half = static_cast<std::uint32_t>(group_ * Tile::keys * row_bytes);
    const std::uint32_t a = operand(shared_address(shared_.scores[at_ % 2]) + (columns == 64 ? half : 0)),
                        b = operand(keys_ + (columns > 64 ? half : 0));
    unrolled<Tile::keys / 16>([&](auto k) {
      constexpr int at = k * 16 * row_bytes;
      multiply(Element{}, dq, a, b, DescriptorOffsets<at, at, Along::sides, Along::sides, (k > 0)>{});
    });
    end_group();
  }

  // The products of this group's keys for the last 64 of 192 columns.
  __device__ __forceinline__ void multiply_own_dscores(float (&dq)[32]) {
    const std::uint32_t own = static_cast<std::uint32_t>(64 * row_bytes * group_);
    const std::uint32_t a = operand(shared_address(shared_.scores[at_ % 2]) + own),
                        b = operand(keys_ + static_cast<std::uint32_t>(2 * Tile::keys * row_bytes) + own);
    unrolled<64 / 16>([&](auto k) {
      constexpr int at = k * 16 * row_bytes;
      multiply(Element{}, dq, a, b, DescriptorOffsets<at, at, Along::sides, Along::sides, (k > 0)>{});
    });
    end_group();
  }
};

}  // namespace pipetrain::cuda::hopper
