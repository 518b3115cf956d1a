#pragma once

#include <algorithm>
#include <vector>

namespace pipetrain::schedules {

// Returns the lower of the two middle values for an even count; 0 for no values.
inline double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + (std::ssize(values) - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace pipetrain::schedules
