// Gradients of attention and MLP blocks' matrices that are outside of the device while nothing is added to them. Those
// of a block are in a slot while its backward (or its weight-gradient half) ranges, and outside until the next microbatch
// adds to them, the norm counts them, or the optimizer reads them.
//
// The sums have the bits of resident gradients: the same operations add the same numbers in the same order. Several
// replicas add theirs in the slot, after the step's last microbatch; from then on, if they divide gradients, each keeps
// only its own range.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "actors/training/offload/offloaded_array.hpp"
#include "actors/training/places/gradient_pool.hpp"
#include "core/device.hpp"
#include "model/parameters/shard_units.hpp"

namespace pipetrain {

// True when gradients of this unit are offloaded; those of word tables and vectors stay on the device.
bool leaves_with_gradients(const ParameterLayout& layout, const ShardUnit& unit);
// Returns where units are on the device. Offloaded units share slots: a unit always uses the same slot, and neighbours never
// share one. Gradients of other products have memory of their own. Offsets are multiples of OffloadStorage::granularity bytes.
// Pure.
GradientPool gradient_slots(const ParameterLayout& layout, const std::vector<ShardUnit>& units);

// The part of a unit's gradients that is outside, in elements of its slot and whole pages. After replicas have been added, it
// is this rank's range. Before that, it is the whole unit, or nothing if nothing is stored so early.
struct LeavingGradients {
  Region before, after;
  Region all() const { return before.size() > 0 ? before : after; }
};
struct GradientRanges {
  int replica = 0;            // the replica whose ranges of the units this rank keeps
  bool leave_summed = false;  // nothing is stored before replicas have been added
};
LeavingGradients leaving_gradients(const ShardUnit& unit, const GradientRanges& ranges);
OffloadedArray::Lengths outside_gradients(const ParameterLayout& layout, const std::vector<ShardUnit>& units,
                                          const GradientRanges& ranges);

// Used by the rank's worker; not thread-safe.
class OffloadedGradients {
 public:
  struct Setup {
    const ParameterLayout& layout;
    const std::vector<ShardUnit>& units;
    Device& device;
    Stream& compute;  // of the rank
    GradientRanges ranges;
    // The stream that carries the sums over several replicas, and the function that enqueues on it whatever puts the
    // unit's sums, or at least this rank's range, into its slot. Every replica makes the same calls in the same order.
    Stream* transfer = nullptr;
    std::function<void(Stream& transfer, std::size_t unit)> sum = {};
  };
  // slots: the address of each unit on the device, a multiple of OffloadStorage::granularity; null where it is not
  // offloaded. All arguments must outlive it.
  OffloadedGradients(const Setup& setup, OffloadedArray& outside, const std::vector<void*>& slots);

  // Nothing has been added yet.
  void begin_step();
  // The block's gradients are about to be added to: later work on `compute` finds the previous sums in their slots.
  // Begins to fetch the blocks before it in the chunk.
  void open(std::size_t block);
  // The present work of `compute` has added to them. last: nothing else will in this step, so replicas are added.
  void close(std::size_t block, bool last);
  // True when these gradients are in a slot.
  bool holds(const Tensor& grads) const;
  // Adds replicas for the blocks of the chunk that were not closed with `last`; later work on `transfer` comes after all sums.
  void sum(int chunk);

  // Makes the unit's sums available in its slot to work that is enqueued on `compute` before the next call with another
  // unit. A reader goes through the units in order. The call does nothing for a unit that is not offloaded; a call
  // without a unit ends the reading.
  void read(std::optional<std::size_t> unit);

 private:
  struct Unit {
    bool begun = false, summed = false;  // in this step: something was added; replicas were added
    LeavingGradients leaving = {};
    std::size_t outside = 0;               // the offset of leaving.all() outside
    std::optional<std::size_t> slot = {};  // no value: it is not offloaded
    std::unique_ptr<Event> stored = {};    // of the last store
  };
  struct Slot {
    void* memory = nullptr;
    std::optional<std::size_t> unit = {};  // the unit that is there, or is being fetched
    bool on_its_way = false;
    std::unique_ptr<Event> fetched, done, stored;
  };

  std::size_t slot_at(void* memory);
  Slot& slot_of(std::size_t unit) { return slots_[*units_[unit].slot]; }
  // Returns the range that is outside now, and where.
  Region leaving(const Unit& unit) const { return unit.summed ? unit.leaving.after : unit.leaving.before; }
  Region place(const Unit& unit) const;
  void bring(std::size_t unit);
  void use(std::size_t unit);
  void sum_replicas(std::size_t unit);
  void store(std::size_t unit);

  Setup setup_;
  OffloadedArray& outside_;
  std::vector<Unit> units_;
  std::vector<Slot> slots_;
  std::vector<std::optional<std::size_t>> unit_of_;  // by block
  std::optional<std::size_t> read_;
};

}  // namespace pipetrain
