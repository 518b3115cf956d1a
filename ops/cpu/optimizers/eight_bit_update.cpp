#include <algorithm>

#include "ops/cpu/kernels.hpp"
#include "ops/cpu/optimizers/host_math.hpp"
#include "ops/cpu/rows.hpp"
#include "ops/cpu/tiles.hpp"

namespace pipetrain::cpu {
namespace {

using Rule = AdamWRule<HostMath>;

constexpr EightBitMap maps[] = {eight_bit_map(true), eight_bit_map(false)};

// One block: its elements and moments as floats.
struct EightBitBlock {
  std::int64_t count = 0;
  float weight[eight_bit_block], moments[2][eight_bit_block];
};

void read_moment(const EightBitState& state, std::int64_t begin, const EightBitMap& map, std::int64_t count, float* out) {
  const float magnitude = state.magnitudes[begin / eight_bit_block];
  for (std::int64_t i = 0; i < count; ++i) out[i] = map[state.codes[begin + i]] * magnitude;
}

void write_moment(const EightBitState& state, std::int64_t begin, const EightBitMap& map, std::int64_t count,
                  const float* values) {
  const auto [least, most] = std::minmax_element(values, values + count);
  // The sum makes +0 of a zero of either sign: which one the search returns depends on their order.
  const float magnitude = block_magnitude(map.data(), *least, *most + 0.0F);
  state.magnitudes[begin / eight_bit_block] = magnitude;
  for (std::int64_t i = 0; i < count; ++i)
    state.codes[begin + i] = nearest_code(map.data(), magnitude > 0 ? values[i] / magnitude : 0);
}

// A step and its preview call one function: see update.cpp.
[[gnu::noinline]] void step_block(const Rule& rule, const float* grad, EightBitBlock& block) {
  const Rule own = rule;
  for (std::int64_t i = 0; i < block.count; ++i)
    block.weight[i] = own(block.weight[i], grad[i], block.moments[0][i], block.moments[1][i]);
}

void update_block(const EightBitUpdateArgs& args, const Rule& rule, std::int64_t begin) {
  EightBitBlock block;
  block.count = std::min(eight_bit_block, args.weight.elements() - begin);
  std::copy_n(args.weight.as<float>() + begin, block.count, block.weight);
  for (std::size_t i = 0; i < 2; ++i) read_moment(args.states[i], begin, maps[i], block.count, block.moments[i]);
  step_block(rule, args.grad.as<float>() + begin, block);
  if (args.rounded) narrow(args.rounded->dtype, block.weight, block.count, element_at(*args.rounded, begin));
  if (args.preview) return;
  std::copy_n(block.weight, block.count, args.weight.as<float>() + begin);
  for (std::size_t i = 0; i < 2; ++i) write_moment(args.states[i], begin, maps[i], block.count, block.moments[i]);
}

}  // namespace

void eight_bit_update(CpuStream& stream, const EightBitUpdateArgs& args) {
  const Rule rule(args.rule);
  const std::int64_t blocks = (args.weight.elements() + eight_bit_block - 1) / eight_bit_block;
  for_row_tiles(stream, blocks, eight_bit_block, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) update_block(args, rule, block * eight_bit_block);
  });
}

}  // namespace pipetrain::cpu
