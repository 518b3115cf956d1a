// The free slots of a queue under a virtual clock. Internal to schedules/.
#pragma once

#include <cstddef>
#include <vector>

namespace pipetrain::schedules {

// The times at which the free slots of a queue became free, oldest first; at most as many as the queue has slots.
class FreeSlots {
 public:
  void resize(int slots) { times_.resize(static_cast<std::size_t>(slots)); }
  void give_back(double time) {
    times_[end_] = time;
    end_ = next(end_);
  }
  double take() {
    const double time = times_[begin_];
    begin_ = next(begin_);
    return time;
  }

 private:
  std::size_t next(std::size_t at) const { return at + 1 == times_.size() ? 0 : at + 1; }
  std::vector<double> times_;
  std::size_t begin_ = 0, end_ = 0;
};

}  // namespace pipetrain::schedules
