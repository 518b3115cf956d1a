// Assigns a rank's slots to the weights of blocks, where there are fewer slots than blocks: each block is brought in
// ahead of use; then its slot serves another block.
//
// The step's sequence of blocks, given by the plan, determines the order. Slots are of two kinds: the first one is for
// the word tables at the model's ends, where the stage holds one; the others are for all other blocks. Uses no memory
// and no device. Not thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "model/parameters/shard_units.hpp"
#include "schedules/plan/action.hpp"
#include "schedules/plan/plan.hpp"

namespace pipetrain {

// Returns the unit that contains this element of the weight arena.
std::size_t unit_with(const std::vector<ShardUnit>& units, std::size_t offset);
// True when the unit is a word table, or the matrices of a block at an end of the model.
bool is_table(const ParameterLayout& layout, const ShardUnit& unit);

class UnitSlots {
 public:
  // The blocks that a step of each kind uses, in order: block_sequence().
  struct Sequences {
    std::vector<std::size_t> training, evaluation;
  };
  // The number of slots for blocks between the ends: prefetch + 1, or one for each such block where those are fewer.
  struct Slots {
    bool table = false;
    std::size_t blocks = 0;
    std::size_t all() const { return blocks + (table ? 1 : 0); }
  };
  static Slots slots(const ParameterLayout& layout, const std::vector<ShardUnit>& units, int prefetch);

  // fill: enqueues the transfer of the unit into the slot, which its last reader has released. The layout and the units must
  // outlive this object.
  using Fill = std::function<void(std::size_t slot, std::size_t unit)>;
  UnitSlots(const ParameterLayout& layout, const std::vector<ShardUnit>& units, int prefetch, Sequences sequences, Fill fill);

  // A block of which this group has vectors alone, as of a router, takes no slot; it is not acquired.
  bool takes_slot(std::size_t block) const { return unit_of_[block] < units_.size(); }
  std::size_t unit_of(std::size_t block) const { return unit_of_[block]; }
  // Empties all slots, then fills the first ones.
  void begin_step(schedules::StepKind kind);
  // Returns the slot that holds the block's unit until release(). Fills slots for later blocks.
  std::size_t acquire(std::size_t block);
  std::size_t release(std::size_t block);

 private:
  struct Slot {
    bool table = false, held = false;
    std::optional<std::size_t> unit = {};  // the unit that it holds or is about to hold
    std::size_t used = 0;                  // the time of its last use
  };

  bool of_table(std::size_t unit) const { return is_table(layout_, units_[unit]); }
  void prefetch();
  Slot* holder(std::size_t unit);
  // Returns a slot that no unit of `soon` needs before this unit is read. Null: there is none.
  Slot* free_slot(std::size_t unit, const std::vector<std::size_t>& soon);
  std::size_t index(const Slot& slot) const { return static_cast<std::size_t>(&slot - slots_.data()); }

  const ParameterLayout& layout_;
  const std::vector<ShardUnit>& units_;
  std::size_t depth_;
  Sequences sequences_;
  Fill fill_;
  std::span<const std::size_t> sequence_;  // of this step
  std::size_t position_ = 0;               // in the sequence
  std::size_t clock_ = 0;
  std::vector<std::size_t> unit_of_;  // by block; the number of units if it takes no slot
  std::vector<Slot> slots_;           // the table's first
};

}  // namespace pipetrain
