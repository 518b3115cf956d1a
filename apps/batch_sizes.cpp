#include "apps/batch_sizes.hpp"

#include <fmt/format.h>

namespace pipetrain {

namespace {

constexpr std::int64_t largest = 1'000'000;  // of each factor, so that no product overflows

// global / (dp x other), which must be whole.
std::int64_t divide(const OptionValues& values, std::int64_t global, std::int64_t dp, const char* other_name,
                    std::int64_t other) {
  const std::int64_t unit = dp * other;
  if (global % unit == 0 && global / unit <= largest) return global / unit;
  if (global % unit == 0)
    values.fail("global-batch", fmt::format("needs more than {} microbatches a step; make it smaller", largest));
  const std::int64_t below = global / unit * unit;
  const std::string near = below > 0 ? fmt::format("{} or {}", below, below + unit) : fmt::format("{}", unit);
  values.fail("global-batch",
              fmt::format("{} sequences cannot be split into dp {} x {} {} = {}; use a multiple of it, such as {}", global, dp,
                          other_name, other, unit, near));
}

}  // namespace

BatchShape resolve_batch(const OptionValues& values, int pp, int dp, std::optional<std::int64_t> plan_microbatches) {
  const auto microbatch = values.integer("microbatch", 1, largest);
  auto microbatches = values.integer("microbatches", 1, largest);
  if (!microbatches) microbatches = plan_microbatches;
  const auto global = values.integer("global-batch", 1, largest * largest);
  BatchShape shape{dp, microbatches.value_or(std::int64_t{4} * pp), microbatch.value_or(1)};
  if (!global) return shape;
  if (!microbatches)
    shape.microbatches = divide(values, *global, dp, "microbatch", shape.microbatch);
  else if (!microbatch)
    shape.microbatch = divide(values, *global, dp, "microbatches", shape.microbatches);
  else if (shape.global_batch() != *global)
    values.fail("global-batch", fmt::format("must be microbatch x microbatches x dp, which is {} x {} x {} = {}; leave one of "
                                            "them out, or make them agree",
                                            shape.microbatch, shape.microbatches, dp, shape.global_batch()));
  return shape;
}

}  // namespace pipetrain
