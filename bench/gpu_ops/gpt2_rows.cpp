// The operations that only GPT-2 has.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "bench/gpu_ops/op_rates.hpp"
#include "bench/gpu_ops/op_rows.hpp"

namespace pipetrain::bench {

void measure_gpt2(OpRates& rates, std::int64_t tokens, std::int64_t hidden) {
  const std::int64_t inner = 4 * hidden, sequence = 1024;
  const double row = static_cast<double>(tokens * hidden) * 2, wide = 4 * row;
  const std::string size = fmt::format(" {} x {} bf16", tokens, hidden),
                    wide_size = fmt::format(" {} x {} bf16", tokens, inner);
  const auto make_norm = [&] {
    std::vector<Tensor> set;
    for (int i = 0; i < 4; ++i) set.push_back(rates.make({tokens, hidden}, DType::bf16));
    for (int i = 0; i < 2; ++i) set.push_back(rates.make({hidden}, DType::bf16));
    for (const std::int64_t elements : {tokens, tokens, hidden, hidden, hidden})
      set.push_back(rates.make({elements}, DType::f32));
    return set;
  };
  rates.with_sets("layer_norm" + size, 2 * row, make_norm, [&](auto& t) {
    rates.ops().layer_norm({.x = t[0], .weight = t[4], .bias = t[5], .eps = 1e-5F, .y = t[1], .mean = t[6], .inv_std = t[7]});
  });
  rates.with_sets("layer_norm_backward + residual and its sums" + size, 4 * row, make_norm, [&](auto& t) {
    rates.ops().layer_norm_backward({.dy = t[0],
                                     .x = t[1],
                                     .weight = t[4],
                                     .mean = t[6],
                                     .inv_std = t[7],
                                     .residual = t[2],
                                     .dx = t[3],
                                     .dweight = t[8],
                                     .dbias = t[9],
                                     .residual_sums = t[10]});
  });
  const auto make_wide = [&] {
    return std::vector<Tensor>{rates.make({tokens, inner}, DType::bf16), rates.make({tokens, inner}, DType::bf16),
                               rates.make({tokens, inner}, DType::bf16), rates.make({inner}, DType::bf16),
                               rates.make({inner}, DType::f32)};
  };
  rates.with_sets("gelu + bias" + wide_size, 2 * wide, make_wide, [&](auto& t) { rates.ops().gelu(t[0], t[3], t[1]); });
  rates.with_sets("gelu_backward + bias_grad" + wide_size, 3 * wide, make_wide, [&](auto& t) {
    rates.ops().gelu_backward({.dy = t[0], .x = t[1], .bias = t[3], .dx = t[2], .dbias = t[4]});
  });
  rates.with_sets("add_bias" + wide_size, 2 * wide, make_wide, [&](auto& t) { rates.ops().add_bias(t[0], t[3]); });
  rates.with_sets("bias_grad" + wide_size, wide, make_wide, [&](auto& t) { rates.ops().bias_grad(t[0], t[4]); });
  const double table = static_cast<double>(sequence * hidden) * 2;
  const auto make_positions = [&] {
    return std::vector<Tensor>{rates.make({tokens, hidden}, DType::bf16), rates.make({sequence, hidden}, DType::bf16),
                               rates.make({sequence, hidden}, DType::f32)};
  };
  rates.with_sets("add_positions" + size, 2 * row + table, make_positions,
                  [&](auto& t) { rates.ops().add_positions({.sequence = sequence, .table = t[1], .x = t[0]}); });
  rates.with_sets("positions_grad" + size, row + 4 * table, make_positions,
                  [&](auto& t) { rates.ops().positions_grad({.sequence = sequence, .dy = t[0], .dtable = t[2]}); });
}

}  // namespace pipetrain::bench
