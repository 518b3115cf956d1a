// Gradients of attention and MLP blocks' matrices that live outside of the device while nothing is added to them: each block's
// are in a slot from when its backward begins (or its weight-gradient half) until it ends, and outside until the next
// microbatch adds to them, the norm counts them, or the optimizer reads them.
//
// Sums are those of gradients that stay: the same operations add to the same numbers, in the same order. Where several replicas
// add theirs up, they do so in the slot, once the step's last microbatch has been added there; from then on each keeps its own
// run only, if they divide them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "actors/training/offload/offloaded_array.hpp"
#include "actors/training/state/gradient_pool.hpp"
#include "core/device.hpp"
#include "model/parameters/shard_units.hpp"

namespace pipetrain {

// Whether gradients of this unit are offloaded: tables of words and vectors stay.
bool leaves_with_gradients(const ParameterLayout& layout, const ShardUnit& unit);
// Where units lie on the device, those that leave: they take turns in slots, each always in the same one and neighbours never
// in one; what else products give has a place of its own. Positions are multiples of OffloadPlace::granularity bytes. Pure.
GradientPool gradient_slots(const ParameterLayout& layout, const std::vector<ShardUnit>& units);

// What of a unit's gradients is outside, in elements of its slot, whole pages: this rank's run once replicas have been added
// up, and before that all of it, or nothing where none leaves before.
struct LeavingGradients {
  Region before, after;
  Region all() const { return before.size() > 0 ? before : after; }
};
struct GradientRuns {
  int replica = 0;            // whose runs of the units this rank keeps
  bool leave_summed = false;  // nothing leaves before replicas have been added up
};
LeavingGradients leaving_gradients(const ShardUnit& unit, const GradientRuns& runs);
// Of all that leave, outside.
OffloadedArray::Lengths outside_gradients(const ParameterLayout& layout, const std::vector<ShardUnit>& units,
                                          const GradientRuns& runs);

// Used by the rank's worker; not thread-safe.
class OffloadedGradients {
 public:
  struct Setup {
    const ParameterLayout& layout;
    const std::vector<ShardUnit>& units;
    Device& device;
    Stream& compute;  // of the rank
    GradientRuns runs;
    // Of several replicas: the stream that carries their sums, and what enqueues there that the unit's are added up in its
    // slot, at least this rank's run. Every replica makes the same calls in the same order.
    Stream* transfer = nullptr;
    std::function<void(Stream& transfer, std::size_t unit)> sum = {};
  };
  // slots: where each unit is while it is on the device, at a multiple of OffloadPlace::granularity; null where it stays.
  // Everything outlives it.
  OffloadedGradients(const Setup& setup, OffloadedArray& outside, const std::vector<void*>& slots);

  // Nothing has been added yet.
  void begin_step();
  // Something is about to be added to the block's gradients: work that `compute` holds from now on finds what has been added
  // before in its slot. Blocks before it in the chunk begin to come.
  void open(std::size_t block);
  // What `compute` holds so far has added to them. last: nothing else will in this step, so that replicas are added up.
  void close(std::size_t block, bool last);
  // Whether these gradients are in a slot.
  bool holds(const Tensor& grads) const;
  // Adds the replicas up of what of the chunk was not closed for the last time; what `transfer` holds then is behind all sums.
  void sum(int chunk);

  // For a reader, in the order of the units: work that is enqueued on `compute` until the next call for another unit finds the
  // unit's sums in its slot. Does nothing for a unit that stays; without a unit the reader is done.
  void read(std::optional<std::size_t> unit);

 private:
  struct Unit {
    bool begun = false, summed = false;  // in this step: something has been added; replicas have been
    LeavingGradients leaving = {};
    std::size_t outside = 0;               // where leaving.all() begins
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
  // What is outside now, and where.
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
