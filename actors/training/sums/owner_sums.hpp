// Sums gradients over the replicas and gives each replica only the sums of its own ranges. If units share memory, also
// orders their uses of it. Not thread-safe: used by the rank's worker only.
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
    Tensor own;                  // receives its range of the sums over replicas; may be that range of `sums`
    bool shares_memory = false;  // with other units
  };
  // units: in the order of shard_units().
  OwnerSums(Device& device, std::shared_ptr<Group> replicas, std::vector<Unit> units);

  // Later work on `compute` may write to the sums of the block's units: it waits until the previous units in the same
  // memory have been summed over the replicas.
  void open(Stream& compute, std::size_t block);
  // Enqueues the sum over the replicas of a part [n] of the sums of one unit or of several consecutive ones: matrices
  // to their owners, vectors to all. Where units share memory, the part belongs to the one that was opened last.
  void sum(Stream& transfer, const Tensor& part);
  // Sums all of a unit, in the order of the list.
  void sum_unit(Stream& transfer, std::size_t unit) { sum_in(transfer, units_[unit], 0, units_[unit].sums.elements()); }

 private:
  void sum_in(Stream& transfer, const Unit& unit, std::int64_t begin, std::int64_t end);

  std::shared_ptr<Group> replicas_;
  std::vector<Unit> units_;
  std::vector<std::vector<std::size_t>> neighbours_;  // by unit: those whose memory overlaps
  std::vector<std::size_t> opened_;                   // by unit: the number of its last open()
  std::size_t clock_ = 0;
  std::vector<std::unique_ptr<Event>> summed_;  // by unit; null where memory is not shared
  std::vector<bool> on_its_way_;                // by unit
};

}  // namespace pipetrain
