// The units (model/parameters/shard_units.hpp) of a rank's weights in an array outside of the device: each is a range
// of it, which is fetched for use and stored after the optimizer's step.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "actors/training/offload/offloaded_array.hpp"
#include "core/device.hpp"

namespace pipetrain {

// Used by the rank's worker; not thread-safe.
class OffloadedUnits {
 public:
  // ranges: the range of each unit, in the array's elements; an empty one is never fetched.
  OffloadedUnits(Device& device, OffloadedArray& array, std::vector<Region> ranges);

  DType type() const { return array_.type(); }
  std::size_t page_bytes(std::size_t unit) const { return OffloadedArray::page_bytes(ranges_[unit], type()); }
  // Returns the address of the unit's first element in memory that it was fetched into.
  char* first(std::size_t unit, char* pages) const;

  // Returns the stream that fetches.
  Stream& in() { return *array_.streams().in; }
  // Enqueued on in(), after the unit's last store. pages: see OffloadedArray.
  void fetch(std::size_t unit, char* pages);
  // All new values of the unit have been enqueued to be stored.
  void stored(std::size_t unit);
  // Waits for the streams.
  void settle() { array_.streams().synchronize(); }

 private:
  OffloadedArray& array_;
  std::vector<Region> ranges_;
  std::vector<std::unique_ptr<Event>> stored_;  // by unit
  std::vector<bool> being_stored_;              // by unit
};

}  // namespace pipetrain
