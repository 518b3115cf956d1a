#include "actors/training/offload/offloaded_units.hpp"

#include <utility>

namespace pipetrain {

OffloadedUnits::OffloadedUnits(Device& device, OffloadedArray& array, std::vector<Region> ranges)
    : array_(array), ranges_(std::move(ranges)), being_stored_(ranges_.size(), false) {
  for (std::size_t unit = 0; unit < ranges_.size(); ++unit) stored_.push_back(device.make_event());
}

char* OffloadedUnits::first(std::size_t unit, char* pages) const {
  return pages + OffloadedArray::lead(ranges_[unit], type()) * size_of(type());
}

void OffloadedUnits::fetch(std::size_t unit, char* pages) {
  if (ranges_[unit].size() == 0) return;
  if (being_stored_[unit]) in().wait(*stored_[unit]);
  being_stored_[unit] = false;
  array_.fetch(ranges_[unit], pages);
}

void OffloadedUnits::stored(std::size_t unit) {
  array_.streams().out->record(*stored_[unit]);
  being_stored_[unit] = true;
}

}  // namespace pipetrain
