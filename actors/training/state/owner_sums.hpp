// Sums of gradients over the replicas of which each replica gets its own runs only, and, where units share memory, the order in
// which they take turns in it. Not thread-safe: used by the rank's worker only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/device.hpp"
#include "core/process_group.hpp"
#include "model/parameters/shard_units.hpp"

namespace pipetrain {

class OwnerSums {
 public:
  struct Unit {
    ShardUnit unit;
    Tensor sums;                 // [unit.weights.size()] of this replica's microbatches
    Tensor own;                  // where its run of the sums over replicas goes; may be the run's place in `sums`
    bool shares_memory = false;  // with other units
  };
  // In the order of shard_units().
  OwnerSums(Device& device, std::shared_ptr<Group> replicas, std::vector<Unit> units);

  // What `compute` holds from now on may write to the sums of the block's units: it waits until those before them there have
  // been summed over the replicas.
  void open(Stream& compute, std::size_t block);
  // Enqueues the sum over the replicas of a part [n] of some unit's sums, or of several that follow each other: to the owners,
  // of vectors to all. Where units share memory, of the one that was opened last.
  void sum(Stream& transfer, const Tensor& part);
  // Of all of a unit, in the order of the list.
  void sum_unit(Stream& transfer, std::size_t unit) { sum_in(transfer, units_[unit], 0, units_[unit].sums.elements()); }

 private:
  void sum_in(Stream& transfer, const Unit& unit, std::int64_t begin, std::int64_t end);

  std::shared_ptr<Group> replicas_;
  std::vector<Unit> units_;
  std::vector<std::vector<std::size_t>> neighbours_;  // by unit: those whose memory overlaps
  std::vector<std::size_t> opened_;                   // by unit: when
  std::size_t clock_ = 0;
  std::vector<std::unique_ptr<Event>> summed_;  // by unit; null where memory is not shared
  std::vector<bool> on_its_way_;                // by unit
};

}  // namespace pipetrain
