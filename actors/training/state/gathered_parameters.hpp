// Weights of which every replica keeps only its own ranges between uses (OwnShards): the matrices or the table of a block
// are gathered into a slot ahead of use; then the slot serves another block. Vectors are small and always gathered.
//
// The step's sequence of blocks determines the order of gathering (UnitSlots), so all replicas gather the same units in
// the same order. Not thread-safe: used by the rank's worker only.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "actors/training/places/unit_slots.hpp"
#include "actors/training/state/own_shards.hpp"
#include "actors/training/state/step_parameters.hpp"
#include "core/buffer.hpp"
#include "schedules/plan/action.hpp"

namespace pipetrain {

// Returns the blocks whose weights the compute actions of one step read, in order: those of forwards, and of the
// backwards of all blocks but the embedding, whose backward reads no weight. An evaluation has only forwards. Pure.
std::vector<std::size_t> block_sequence(const ParameterLayout& layout, const std::vector<schedules::Action>& actions,
                                        schedules::StepKind kind);

class GatheredParameters final : public StepParameters {
 public:
  // Slots are of two kinds: one for the tables at the model's ends, and prefetch + 1 for all other blocks.
  struct Sizes {
    std::size_t vectors = 0;           // elements of all vectors, aligned
    std::size_t table = 0, slots = 0;  // elements of the table's slot, and of all others together
    std::size_t total() const { return vectors + table + slots; }
  };
  static Sizes sizes(const ParameterLayout& layout, const std::vector<ShardUnit>& units, int prefetch);

  // shards: this rank's. Allocates sizes().total() elements of their type. Throws Error(out_of_memory).
  GatheredParameters(const Setup& setup, const Replicas& replicas, std::unique_ptr<OwnShards> shards, int prefetch,
                     UnitSlots::Sequences sequences);

  void begin_step(schedules::StepKind kind) override;
  void publish(std::size_t unit) override { shards_->publish(unit); }
  void loaded() override { shards_->loaded(); }
  void set_rehearsing(bool rehearsing) override;
  Tensor settled() override;
  const std::vector<Tensor>& acquire(std::size_t block) override;
  void release(std::size_t block) override;

 private:
  struct Slot {
    std::size_t begin = 0;  // offset in whole_
    bool on_its_way = false;
    std::unique_ptr<Event> gathered, released;
  };

  void make_slots(int prefetch);
  void make_views();
  void gather(std::size_t unit, const Tensor& target);
  void fill(std::size_t slot, std::size_t unit);

  Setup setup_;
  Replicas replicas_;
  std::unique_ptr<OwnShards> shards_;
  Buffer memory_;
  Tensor whole_;  // [sizes().total()]
  UnitSlots unit_slots_;
  bool rehearsing_ = false, vectors_on_their_way_ = false;
  std::vector<std::size_t> vector_begins_;  // of each unit of vectors, in whole_
  std::vector<Slot> slots_;                 // the table's first
  // By block and slot; one list of views where there is no slot.
  std::vector<std::vector<std::vector<Tensor>>> views_;
  std::unique_ptr<Event> stepped_, vectors_gathered_;
};

}  // namespace pipetrain
