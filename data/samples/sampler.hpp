// Says which samples each step trains on, and how a global batch is divided: a pure function of the step.
#pragma once

#include <cstdint>
#include <vector>

namespace pipetrain {

// A global batch is dp x microbatches x microbatch samples, in this order: replica r owns a contiguous share, and its
// microbatch m a contiguous share of that. So the batch, and the order inside it, does not depend on pp, tp or dp.
struct BatchShape {
  std::int64_t dp = 1;
  std::int64_t microbatches = 1;  // of one replica in a step
  std::int64_t microbatch = 1;    // sequences in one
  std::int64_t global_batch() const { return dp * microbatches * microbatch; }
};

// Immutable and thread-safe. It has no state to save: a run resumed at step k asks for step k.
class Sampler {
 public:
  // together: consecutive samples that stay together, see Dataset::samples_per_row(); it divides the sizes of samples and
  // microbatches. Throws Error(input) if `samples` is smaller than one global batch, or if a size is below 1.
  Sampler(std::int64_t samples, BatchShape shape, bool shuffle, std::uint64_t seed, int together = 1);
  // For evaluation: every sample once, in order. The last batch is filled up with no_sample, and later batches consist
  // of it. Throws Error(input) if a size is below 1.
  static Sampler once_in_order(std::int64_t samples, BatchShape shape);
  static constexpr std::int64_t no_sample = -1;

  // The last partial batch is dropped, except by once_in_order().
  std::int64_t steps_per_epoch() const { return (samples_ + padding_) / shape_.global_batch(); }

  // Steps count from 0, through all epochs. The indices are for Dataset::read: epoch * samples + a sample of that
  // epoch; in order without shuffle, else in a different order in each epoch.
  std::vector<std::int64_t> global_batch(std::int64_t step) const;
  std::vector<std::int64_t> microbatch(std::int64_t step, std::int64_t replica, std::int64_t microbatch) const;

 private:
  Sampler(std::int64_t samples, BatchShape shape);

  std::vector<std::int64_t> range(std::int64_t step, std::int64_t first, std::int64_t count) const;

  std::int64_t samples_;
  BatchShape shape_;
  bool shuffle_ = false;
  int together_ = 1;
  std::uint64_t seed_ = 0;
  std::int64_t padding_ = 0;  // the last batch's entries without a sample
  bool once_ = false;
};

}  // namespace pipetrain
