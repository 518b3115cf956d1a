#include "records/step_series.hpp"

#include <algorithm>
#include <cmath>

namespace pipetrain {

namespace {

void merge(StepSeries::Bucket& bucket, const StepSeries::Bucket& later) {
  bucket.last = later.last;
  bucket.minimum = std::min(bucket.minimum, later.minimum);
  bucket.maximum = std::max(bucket.maximum, later.maximum);
  bucket.value = later.value;
}

}  // namespace

void StepSeries::add(std::int64_t step, double value) {
  if (!std::isfinite(value)) return;
  const Bucket one{step, step, value, value, value};
  if (!buckets_.empty() && step / steps_a_bucket_ == buckets_.back().first / steps_a_bucket_) {
    merge(buckets_.back(), one);
    return;
  }
  buckets_.push_back(one);
  while (buckets_.size() > most_buckets) halve();
}

void StepSeries::halve() {
  steps_a_bucket_ *= 2;
  std::vector<Bucket> fewer;
  for (const Bucket& bucket : buckets_) {
    if (!fewer.empty() && fewer.back().first / steps_a_bucket_ == bucket.first / steps_a_bucket_) {
      merge(fewer.back(), bucket);
    } else {
      fewer.push_back(bucket);
    }
  }
  buckets_ = std::move(fewer);
}

}  // namespace pipetrain
