#include "actors/training/job/batch_sizes.hpp"

#include <fmt/format.h>

#include "core/error.hpp"

namespace pipetrain {

namespace {

[[noreturn]] void refuse_batch(std::int64_t global, const std::string& why) {
  throw Error(ErrorKind::input, {"global-batch", std::to_string(global)}, why);
}

struct Factor {
  const char* name;
  std::int64_t size;
};

// global / (dp x other), which must be whole.
std::int64_t divide(std::int64_t global, std::int64_t dp, const Factor& other) {
  const std::int64_t unit = dp * other.size;
  if (global % unit == 0 && global / unit <= largest_batch_factor) return global / unit;
  if (global % unit == 0)
    refuse_batch(global, fmt::format("needs more than {} microbatches a step; make it smaller", largest_batch_factor));
  const std::int64_t below = global / unit * unit;
  const std::string near = below > 0 ? fmt::format("{} or {}", below, below + unit) : fmt::format("{}", unit);
  refuse_batch(global, fmt::format("{} sequences cannot be split into dp {} x {} {} = {}; use a multiple of it, such as {}",
                                   global, dp, other.name, other.size, unit, near));
}

}  // namespace

BatchShape resolve_batch(const BatchSettings& settings, int pp, int dp) {
  BatchShape shape{dp, settings.microbatches.value_or(std::int64_t{4} * pp), settings.microbatch.value_or(1)};
  if (!settings.global_batch) return shape;
  const std::int64_t global = *settings.global_batch;
  if (!settings.microbatches)
    shape.microbatches = divide(global, dp, {"microbatch", shape.microbatch});
  else if (!settings.microbatch)
    shape.microbatch = divide(global, dp, {"microbatches", shape.microbatches});
  else if (shape.global_batch() != global)
    refuse_batch(global,
                 fmt::format("must be microbatch x microbatches x dp, which is {} x {} x {} = {}; leave one of them out, or "
                             "make them agree",
                             shape.microbatch, shape.microbatches, dp, shape.global_batch()));
  return shape;
}

}  // namespace pipetrain
