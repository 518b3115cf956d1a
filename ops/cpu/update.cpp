#include "ops/update.hpp"

#include <algorithm>
#include <utility>

#include "ops/cpu/kernels.hpp"
#include "ops/cpu/optimizers/host_math.hpp"
#include "ops/cpu/rows.hpp"
#include "ops/cpu/tiles.hpp"

namespace pipetrain::cpu {

namespace {

// The number of elements that are updated at once. A step and its preview cut every tile alike and call one
// function, because the compiler may contract products and sums differently at each place of the code.
constexpr std::int64_t range_elements = 1024;

template <class Rule, class... State>
[[gnu::noinline]] void step_range(const Rule& rule, std::int64_t count, float* weight, const float* grad, State*... states) {
  const Rule own = rule;  // a local copy: the compiler vectorises only if it sees that the stores below cannot change it
  for (std::int64_t i = 0; i < count; ++i) weight[i] = own(weight[i], grad[i], states[i]...);
}

// The elements of one range: in place, or copies for a preview.
template <std::size_t states>
struct UpdateRange {
  std::int64_t count;
  float* weight;
  const float* grad;
  std::array<float*, states> state;
};

template <class Rule, std::size_t... index>
void step(const Rule& rule, const UpdateRange<sizeof...(index)>& range, std::index_sequence<index...>) {
  step_range(rule, range.count, range.weight, range.grad, range.state[index]...);
}

template <class Rule>
void update_elements(const UpdateArgs& args, const Rule& rule, std::int64_t begin, std::int64_t end) {
  constexpr std::size_t states = Rule::states;
  alignas(64) float weights[range_elements], copies[std::max<std::size_t>(states, 1)][range_elements];
  for (std::int64_t at = begin; at < end; at += range_elements) {
    UpdateRange<states> range{std::min(range_elements, end - at), args.weight.as<float>() + at, args.grad.as<float>() + at, {}};
    for (std::size_t i = 0; i < states; ++i) range.state[i] = args.states[i].template as<float>() + at;
    if (args.preview) {
      range.weight = std::copy_n(range.weight, range.count, weights) - range.count;
      for (std::size_t i = 0; i < states; ++i)
        range.state[i] = std::copy_n(range.state[i], range.count, copies[i]) - range.count;
    }
    step(rule, range, std::make_index_sequence<states>());
    if (args.rounded) narrow(args.rounded->dtype, range.weight, range.count, element_at(*args.rounded, at));
  }
}

}  // namespace

void update(CpuStream& stream, const UpdateArgs& args) {
  std::visit(
      [&](const auto& settings) {
        for_elements(stream, args.weight.elements(),
                     [&, rule = rule_of<HostMath>(settings)](std::int64_t begin, std::int64_t end) {
                       update_elements(args, rule, begin, end);
                     });
      },
      args.rule);
}

}  // namespace pipetrain::cpu
