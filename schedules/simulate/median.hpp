#pragma once

#include <algorithm>
#include <vector>

namespace pipetrain::schedules {

// The lower one of two in the middle; 0 of none.
inline double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + (std::ssize(values) - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace pipetrain::schedules
