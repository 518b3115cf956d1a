#include "data/samples/sampler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <numeric>

#include "core/error.hpp"
#include "data/samples/permutation.hpp"

namespace pipetrain {

Sampler::Sampler(std::int64_t samples, BatchShape shape) : samples_(samples), shape_(shape) {
  if (shape.dp < 1 || shape.microbatches < 1 || shape.microbatch < 1)
    throw Error(ErrorKind::input, fmt::format("a batch of dp {} x microbatches {} x microbatch {}: each must be at least 1",
                                              shape.dp, shape.microbatches, shape.microbatch));
}

Sampler Sampler::once_in_order(std::int64_t samples, BatchShape shape) {
  Sampler sampler(samples, shape);
  const std::int64_t batch = shape.global_batch();
  sampler.padding_ = (batch - samples % batch) % batch;
  sampler.once_ = true;
  return sampler;
}

Sampler::Sampler(std::int64_t samples, BatchShape shape, bool shuffle, std::uint64_t seed, int together)
    : Sampler(samples, shape) {
  shuffle_ = shuffle;
  together_ = together;
  seed_ = seed;
  if (samples < shape.global_batch())
    throw Error(ErrorKind::input,
                fmt::format("the data has {} samples, too few for one global batch of {} (dp {} x microbatches {} x microbatch "
                            "{}); give more data, a smaller sequence length or a smaller global batch",
                            samples / together, shape.global_batch() / together, shape.dp, shape.microbatches,
                            shape.microbatch / together));
}

std::vector<std::int64_t> Sampler::global_batch(std::int64_t step) const { return range(step, 0, shape_.global_batch()); }

std::vector<std::int64_t> Sampler::microbatch(std::int64_t step, std::int64_t replica, std::int64_t microbatch) const {
  assert(replica >= 0 && replica < shape_.dp && microbatch >= 0 && microbatch < shape_.microbatches);
  return range(step, (replica * shape_.microbatches + microbatch) * shape_.microbatch, shape_.microbatch);
}

std::vector<std::int64_t> Sampler::range(std::int64_t step, std::int64_t first, std::int64_t count) const {
  assert(step >= 0);
  if (once_) {
    std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
    std::iota(indices.begin(), indices.end(), step * shape_.global_batch() + first);
    std::replace_if(
        indices.begin(), indices.end(), [this](std::int64_t index) { return index >= samples_; }, no_sample);
    return indices;
  }
  const std::int64_t epoch = step / steps_per_epoch();
  std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
  std::iota(indices.begin(), indices.end(), step % steps_per_epoch() * shape_.global_batch() + first);
  if (shuffle_) {
    const Permutation order(samples_ / together_, derive_key(seed_, 0x5a3b1e, static_cast<std::uint64_t>(epoch)));
    for (std::int64_t& index : indices) index = order(index / together_) * together_ + index % together_;
  }
  for (std::int64_t& index : indices) index += epoch * samples_;
  return indices;
}

}  // namespace pipetrain
