// The units (model/parameters/shard_units.hpp) of a rank's weights in an array outside of the device: each is one run of it,
// which is fetched for use and stored when it has been stepped.
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
  // runs: of each unit, in the array's elements; an empty one is never fetched.
  OffloadedUnits(Device& device, OffloadedArray& array, std::vector<Region> runs);

  DType type() const { return array_.type(); }
  std::size_t page_bytes(std::size_t unit) const { return OffloadedArray::page_bytes(runs_[unit], type()); }
  // Where the unit's first element is, in memory that it was fetched into.
  char* first(std::size_t unit, char* pages) const;

  // The stream that fetches.
  Stream& in() { return *array_.streams().in; }
  // Enqueued there, behind the unit's last store. pages: as OffloadedArray has it.
  void fetch(std::size_t unit, char* pages);
  // What has been enqueued to be stored by now is all of the unit's new values.
  void stored(std::size_t unit);
  // Waits for the streams.
  void settle() { array_.streams().synchronize(); }

 private:
  OffloadedArray& array_;
  std::vector<Region> runs_;
  std::vector<std::unique_ptr<Event>> stored_;  // by unit
  std::vector<bool> being_stored_;              // by unit
};

}  // namespace pipetrain
