// Gradients of attention and MLP blocks' matrices that live outside of the device while nothing is added to them: each block's
// are in a slot from when its backward begins (or its weight-gradient half) until it ends, and outside until the next
// microbatch adds to them, the norm counts them, or the optimizer reads them.
//
// Sums are those of gradients that stay: the same operations add to the same numbers, in the same order.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "actors/training/gradient_pool.hpp"
#include "actors/training/offloaded_array.hpp"
#include "core/device.hpp"
#include "model/shard_units.hpp"

namespace pipetrain {

// Whether gradients of this unit are offloaded: tables of words and vectors stay.
bool leaves_with_gradients(const ParameterLayout& layout, const ShardUnit& unit);
// Where units lie on the device, those that leave: they take turns in slots, each always in the same one and neighbours never
// in one; what else products give has a place of its own. Positions are multiples of OffloadPlace::granularity bytes. Pure.
GradientPool gradient_slots(const ParameterLayout& layout, const std::vector<ShardUnit>& units);
// Of all that leave, outside.
OffloadedArray::Lengths outside_gradients(const ParameterLayout& layout, const std::vector<ShardUnit>& units);

// Used by the rank's worker; not thread-safe.
class OffloadedGradients {
 public:
  struct Setup {
    const ParameterLayout& layout;
    const std::vector<ShardUnit>& units;  // for one replica
    Device& device;
    Stream& compute;  // of the rank
  };
  // slots: where each unit is while it is on the device, at a multiple of OffloadPlace::granularity; null where it stays.
  // Everything outlives it.
  OffloadedGradients(const Setup& setup, OffloadedArray& outside, const std::vector<void*>& slots);

  // Nothing has been added yet.
  void begin_step();
  // Something is about to be added to the block's gradients: work that `compute` holds from now on finds what has been added
  // before in its slot. Blocks before it in the chunk begin to come.
  void open(std::size_t block);
  // What `compute` holds so far has added to them.
  void close(std::size_t block);

  // For a reader, in the order of the units: work that is enqueued on `compute` until the next call for another unit finds the
  // unit's sums in its slot. Does nothing for a unit that stays; without a unit the reader is done.
  void read(std::optional<std::size_t> unit);

 private:
  struct Unit {
    bool begun = false;  // something has been added in this step
    Region outside = {};
    std::optional<std::size_t> slot = {};  // none: it stays
    std::unique_ptr<Event> stored = {};    // what was added last
  };
  struct Slot {
    void* memory = nullptr;
    std::optional<std::size_t> unit = {};  // what is there, or is on its way
    bool on_its_way = false;
    std::unique_ptr<Event> fetched, done, stored;
  };

  std::size_t slot_at(void* memory);
  Slot& slot_of(std::size_t unit) { return slots_[*units_[unit].slot]; }
  void bring(std::size_t unit);
  void use(std::size_t unit);

  Setup setup_;
  OffloadedArray& outside_;
  std::vector<Unit> units_;
  std::vector<Slot> slots_;
  std::vector<std::optional<std::size_t>> unit_of_;  // by block
  std::optional<std::size_t> read_;
};

}  // namespace pipetrain
