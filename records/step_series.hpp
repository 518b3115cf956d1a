// A value of every step of a run of any length, in bounded memory.
#pragma once

#include <cstdint>
#include <vector>

namespace pipetrain {

// Adjacent steps share a bucket that keeps their smallest, largest and last value, so that a picture as wide as the
// number of buckets looks as if all steps were drawn (min/max a pixel), and a single spike is never lost.
class StepSeries {
 public:
  static constexpr std::size_t most_buckets = 1024;

  struct Bucket {
    std::int64_t first = 0, last = 0;  // steps
    double minimum = 0, maximum = 0, value = 0;
  };

  // Steps must ascend. Values that are not finite are left out.
  void add(std::int64_t step, double value);
  const std::vector<Bucket>& buckets() const { return buckets_; }
  bool empty() const { return buckets_.empty(); }

 private:
  void halve();

  std::vector<Bucket> buckets_;
  std::int64_t steps_a_bucket_ = 1;
};

}  // namespace pipetrain
