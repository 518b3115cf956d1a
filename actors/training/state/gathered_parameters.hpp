// Weights of which every replica keeps only its own ranges between uses (OwnShards), and which are gathered for use.
//
// The step's sequence of blocks determines the order of gathering (UnitSlots), so all replicas gather the same units in
// the same order. Not thread-safe: used by the rank's worker only.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "actors/training/state/own_shards.hpp"
#include "actors/training/state/slotted_parameters.hpp"
#include "core/buffer.hpp"
#include "schedules/plan/action.hpp"

namespace pipetrain {

// Returns the blocks whose weights the compute actions of one step read, in order: those of forwards, and of the
// backwards of all blocks but the embedding, whose backward reads no weight. An evaluation has only forwards. Pure.
std::vector<std::size_t> block_sequence(const ParameterLayout& layout, const std::vector<schedules::Action>& actions,
                                        schedules::StepKind kind);

class GatheredParameters final : public SlottedParameters {
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

  void publish(std::size_t unit) override { shards_->publish(unit); }
  void loaded() override { shards_->loaded(); }
  void set_rehearsing(bool rehearsing) override;
  Tensor settled() override { return wait_for_vectors(), whole_; }

 private:
  Stream& transfer() override { return replicas_.transfer; }
  void bring_vectors(std::size_t unit) override { gather(unit, vector_begins_[unit]); }
  void bring(std::size_t unit, std::size_t slot) override { gather(unit, slot_begins_[slot]); }
  void place_units(int prefetch);
  // Gathers the unit to this offset in whole_.
  void gather(std::size_t unit, std::size_t begin);

  Replicas replicas_;
  std::unique_ptr<OwnShards> shards_;
  Buffer memory_;
  Tensor whole_;                                          // [sizes().total()]
  std::vector<std::size_t> vector_begins_, slot_begins_;  // offsets in whole_; vectors by unit
};

}  // namespace pipetrain
