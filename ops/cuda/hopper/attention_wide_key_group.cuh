// One group of four warps computes half of the columns of dK, dV and dQ in attention's backward with heads of 256, whose
// gradients of 64 keys fill the registers of two groups. Each group computes the scores of half of a tile's queries, and both
// read the scores of all of them from shared memory. Only for .cu files.
#pragma once

#include "ops/cuda/hopper/attention_gradient_group.cuh"
#include "ops/cuda/hopper/attention_scores.cuh"

namespace pipetrain::cuda::hopper {

template <class Tile>
class WideKeyGroup : public GradientGroup<WideKeyGroup<Tile>, Tile> {
  using Base = GradientGroup<WideKeyGroup<Tile>, Tile>;
  friend Base;
  using Base::at_, Base::col, Base::dim, Base::group_, Base::key_grad_, Base::keys_, Base::lane, Base::release, Base::row,
      Base::shared_, Base::thread_, Base::value_grad_, Base::view_;

 public:
  using Element = typename Tile::Element;
  using Base::Base;

 private:
  static constexpr int own_queries = Tile::queries / 2, scores = own_queries / 2;
  static constexpr int own_boxes = dim / 2 / 64;  // boxes of 64 columns
  static constexpr int key_box = Tile::keys * row_bytes, query_box = Tile::queries * row_bytes;

  // As KeyGroup::step().
  __device__ __forceinline__ void step(int after, int first_key, float units, bool last) {
    const int stage = at_ % Tile::query_stages, parity = at_ / Tile::query_stages % 2;
    const int dout_stage = at_ % Tile::dout_stages, dout_parity = at_ / Tile::dout_stages % 2;
    const std::uint32_t queries = shared_address(shared_.queries[stage]), douts = shared_address(shared_.douts[dout_stage]);
    float p[scores], dp[scores];  // [key, own query]
    wait(shared_.queries_full[stage], parity);
    begin_products();
    multiply_by_keys(p, keys_, queries);
    wait(shared_.douts_full[dout_stage], dout_parity);
    multiply_by_keys(dp, shared_address(shared_.values), douts);
    wait_for_groups_but<1>();
    const int first = own_queries * group_ + col();
    softmax(p, statistic(stage, log2_sum) + first, view_.scale * log2_e);
    if (after < Tile::keys) clear_before(p, row() - after - first);  // earlier queries do not attend to the key
    if constexpr (Tile::has_begins) {
      const int* const begins = reinterpret_cast<const int*>(statistic(stage, begin));
      if (begins[Tile::queries - 1] > first_key)  // some query of the tile does not see the block's first key
        clear_before_begin(p, begins + first, first_key + row());
    }
    RoundedScores<scores> rounded;
    round_to<Element>(rounded, p);
    write(2 + at_ % 2, rounded);
    wait_for_groups_but<0>();
    multiply_differences<Element>(rounded, p, dp, statistic(stage, delta) + first);
    write(at_ % 2, rounded);
    publish_shared();
    const float* inverse = statistic(stage, inverse_norm) + row();
    const float upper = units * inverse[0], lower = units * inverse[8];
    sync_at(scores_written, 2 * group_threads);
    if (last) release(shared_.values_empty);
    float dq[2][32];  // [query, column] of the two boxes of this group's columns
    begin_products();
    add_to(value_grad_, 2 + at_ % 2, douts);
    multiply_dscores(dq[0], 0);
    multiply_dscores(dq[1], 1);
    add_to(key_grad_, at_ % 2, queries);
    wait_for_groups_but<3>();
    release(shared_.douts_empty[dout_stage]);
    wait_for_groups_but<2>();
    this->give_sums(dq[0], upper, lower);
    wait_for_groups_but<1>();
    this->give_sums(dq[1], upper, lower);
    wait_for_groups_but<0>();
    release(shared_.queries_empty[stage]);
  }

  __device__ __forceinline__ const float* statistic(int stage, Statistic which) const {
    return shared_.statistics[stage] + which * Tile::queries;
  }

  // out [64 keys, own queries] = `keys` . own rows of `queries`^T
  __device__ __forceinline__ void multiply_by_keys(float (&out)[scores], std::uint32_t keys, std::uint32_t queries) {
    const std::uint32_t a = operand(keys), b = operand(queries + static_cast<std::uint32_t>(own_queries * row_bytes * group_));
    unrolled<dim / 16>([&](auto k) {
      constexpr int at_a = k / 4 * key_box + k % 4 * 32, at_b = k / 4 * query_box + k % 4 * 32;
      multiply(Element{}, out, a, b, DescriptorOffsets<at_a, at_b, Along::depth, Along::depth, (k > 0)>{});
    });
    end_group();
  }

  // grad [64 keys, own columns] += the scores [64 keys, queries] of this buffer . own columns of `queries`
  __device__ __forceinline__ void add_to(float (&grad)[dim / 4], int buffer, std::uint32_t queries) {
    const std::uint32_t a = operand(shared_address(shared_.scores[buffer])),
                        b = operand(queries + static_cast<std::uint32_t>(own_boxes * query_box * group_), query_box);
    unrolled<Tile::queries / 16>([&](auto k) {
      multiply(Element{}, grad, a, b, DescriptorOffsets<k * 32, k * 16 * row_bytes, Along::depth, Along::sides, true>{});
    });
    end_group();
  }

  // dq [queries, 64] = dS . K, for one box of own columns.
  __device__ __forceinline__ void multiply_dscores(float (&dq)[32], int box) {
    const std::uint32_t a = operand(shared_address(shared_.scores[at_ % 2])),
                        b = operand(keys_ + static_cast<std::uint32_t>((own_boxes * group_ + box) * key_box));
    unrolled<Tile::keys / 16>([&](auto k) {
      constexpr int at = k * 16 * row_bytes;
      multiply(Element{}, dq, a, b, DescriptorOffsets<at, at, Along::sides, Along::sides, (k > 0)>{});
    });
    end_group();
  }

  __device__ __forceinline__ void write(int buffer, const RoundedScores<scores>& rounded) {
    const int key = 16 * (thread_ / 32) + lane() % 16, column = own_queries / 8 * group_ + lane() / 16;  // of 16 bytes
    write_scores(shared_address(shared_.scores[buffer]) + static_cast<std::uint32_t>(key * row_bytes + (column ^ key % 8) * 16),
                 rounded, key_box);
  }
};

}  // namespace pipetrain::cuda::hopper
