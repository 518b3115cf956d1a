// Weights of which every replica keeps only its own runs between uses: the matrices or the table of a block are gathered into a
// slot ahead of use, and the slot goes to another block after it. Vectors are small and always there.
//
// What is gathered when follows from the step's sequence of blocks, which the plan gives, so that all replicas gather the same
// units in the same order. Not thread-safe: used by the rank's worker only.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "actors/training/divided_parameters.hpp"
#include "schedules/action.hpp"

namespace pipetrain {

// The blocks whose weights the compute actions of one step read, in order: forwards, and the backwards of all blocks but the
// embedding, whose backward reads no weight. An evaluation has the forwards alone. Pure.
std::vector<std::size_t> block_sequence(const ParameterLayout& layout, const std::vector<schedules::Action>& actions,
                                        schedules::StepKind kind);

class GatheredParameters final : public DividedParameters {
 public:
  // Slots are of two kinds: one for the tables at the model's ends, and prefetch + 1 for all other blocks.
  struct Sizes {
    std::size_t vectors = 0;           // elements of all vectors, aligned
    std::size_t table = 0, slots = 0;  // elements of the table's slot, and of all others together
    std::size_t total() const { return vectors + table + slots; }
  };
  static Sizes sizes(const ParameterLayout& layout, const std::vector<ShardUnit>& units, int prefetch);

  struct Memory {
    Tensor shard;                           // this rank's runs
    Tensor whole;                           // [sizes.total()]
    std::vector<std::size_t> shard_begins;  // where each unit's run begins in the shard
  };
  // block_sequence() of every step of this kind.
  struct Sequences {
    std::vector<std::size_t> training, evaluation;
  };
  GatheredParameters(const Setup& setup, const Memory& memory, int prefetch, Sequences sequences);

  void begin_step(schedules::StepKind kind) override;
  void publish(std::size_t) override {}
  void loaded() override {}
  void set_rehearsing(bool rehearsing) override { rehearsing_ = rehearsing; }
  Tensor settled() override;
  const std::vector<Tensor>& acquire(std::size_t block) override;
  void release(std::size_t block) override;

 private:
  struct Slot {
    bool table = false;
    std::size_t begin = 0;            // in Memory::whole
    std::optional<std::size_t> unit;  // what it holds, or is about to
    bool held = false, on_its_way = false;
    std::size_t used = 0;  // when it was taken last
    std::unique_ptr<Event> gathered, released;
  };

  void make_slots(int prefetch);
  void make_views();
  void gather(std::size_t unit, const Tensor& target);
  void prefetch();
  Slot* holder(std::size_t unit);
  // A slot for the unit that nothing needs before it: `soon` are the units that are read until then. Null: there is none.
  Slot* free_slot(std::size_t unit, const std::vector<std::size_t>& soon);
  void fill(Slot& slot, std::size_t unit);
  bool is_table(std::size_t unit) const;

  Setup setup_;
  Memory memory_;
  std::size_t depth_;
  Sequences sequences_;
  std::span<const std::size_t> sequence_;  // of this step
  std::size_t position_ = 0;               // in the sequence
  std::size_t clock_ = 0;
  bool rehearsing_ = false, vectors_on_their_way_ = false;
  std::vector<std::size_t> vector_begins_;               // of each unit of vectors, in Memory::whole
  std::vector<std::size_t> unit_of_;                     // by block: what is gathered for it
  std::vector<Slot> slots_;                              // the table's first
  std::vector<std::vector<std::vector<Tensor>>> views_;  // by block and slot
  std::unique_ptr<Event> stepped_, vectors_gathered_;
};

}  // namespace pipetrain
