// Maps the parameters of a rank to its arenas under each stage of ZeRO: the lengths of the arenas, and the offsets of
// what the rank steps, sums and saves. Pure.
//
// An arena is either whole, flat as ParameterLayout describes it, or a shard: the ranges of all units
// (model/parameters/shard_units.hpp) that the rank's replica owns, one after the other, aligned. An arena of gradients that
// share memory (gradient_pool.hpp) has three parts: gradients with their own memory, the pool, and the shard of their sums.
#pragma once

#include <cstddef>
#include <vector>

#include "actors/training/places/gradient_pool.hpp"
#include "actors/training/places/offloaded_gradients.hpp"
#include "model/config/offload.hpp"
#include "model/config/precision.hpp"
#include "model/config/zero.hpp"
#include "model/optimizer/optimizer.hpp"
#include "model/parameters/gradient_norm.hpp"
#include "model/parameters/gradient_places.hpp"
#include "model/parameters/gradient_sums.hpp"
#include "model/parameters/shard_units.hpp"
#include "schedules/plan/action.hpp"

namespace pipetrain {

// offloads_masters: master weights that operations do not read are outside of the device. offloads_weights: the weights
// that the optimizer updates are, whether they are masters or not.
bool offloads_masters(const Offload& offload, const Precision& precision);
bool offloads_weights(const Offload& offload, const Precision& precision);

// The rank's place among those that divide its state.
struct ReplicaPlace {
  int replicas = 1, replica = 0;
  ShardCuts cuts = ShardCuts::norm_blocks;

  std::vector<ShardUnit> units(const ParameterLayout& layout) const { return shard_units(layout, replicas, cuts); }
};
// Without ZeRO all replicas keep everything, so each counts as the only one.
ReplicaPlace place_among(const Zero& zero, const OptimizerSettings& optimizer, int replicas, int replica);

// A held part with its first element in each arena.
struct HeldPlace {
  HeldPart part;
  std::size_t weight = 0, grad = 0, state = 0, rounded = 0;
};

class StatePlaces {
 public:
  struct Setup {
    Zero zero;
    ReplicaPlace place;
    Precision precision;
    std::vector<schedules::Action> actions;  // of every step, in order; empty where the order is not known in advance
    Offload offload;
    bool grads_leave_summed = false;  // of offloaded gradients: see GradientRanges
    bool previews = false;  // operations read a separate copy of the weights, of any type; only for a rank that divides nothing
  };
  // The layout must outlive it.
  StatePlaces(const ParameterLayout& layout, const Setup& setup);

  const std::vector<schedules::Action>& actions() const { return setup_.actions; }
  const Precision& precision() const { return setup_.precision; }
  bool is_sharded() const { return setup_.place.replicas > 1; }
  // True when each replica keeps only its own ranges of the weights that operations read. Offloaded weights are divided
  // wherever states are: whole copies outside would take more memory, and more of each replica's link to it.
  bool gathers_weights() const { return is_sharded() && (setup_.zero.divides_weights() || setup_.offload.parameters); }
  const std::vector<ShardUnit>& units() const { return units_; }
  Region run(const ShardUnit& unit) const { return unit.run(setup_.place.replica); }

  // --- Weights and states ---
  // Lengths, in elements.
  std::size_t weights() const { return weights_sharded_ ? shard_ : layout_.weight_elements; }  // that the optimizer updates
  std::size_t states() const { return is_sharded() ? shard_ : layout_.weight_elements; }  // of each of the optimizer's states
  std::size_t rounded() const;  // of the weights' copy in the operations' type; 0: none
  // Returns the range of each unit that the rank owns in a shard; empty for tied copies.
  std::vector<Region> shard_ranges() const;

  // Returns the parts of states and weights that this rank holds, for saving and loading.
  const std::vector<HeldPart>& held() const { return held_; }
  std::size_t weight_at(const HeldPart& part) const { return weights_sharded_ ? shard_at(part) : whole_at(part); }
  std::size_t state_at(const HeldPart& part) const { return is_sharded() ? shard_at(part) : whole_at(part); }
  std::size_t rounded_at(const HeldPart& part) const { return gathers_weights() ? shard_at(part) : whole_at(part); }

  // Returns the same parts by unit.
  std::vector<std::vector<HeldPlace>> held_places() const;
  const ParameterLayout& layout() const { return layout_; }

  // --- Gradients ---
  std::size_t grads() const { return grads_; }
  bool pools() const { return !pool_.is_empty(); }
  bool is_pooled(std::size_t unit) const { return pool_.begins[unit].has_value(); }
  // Returns the part of the gradients that is outside, where they are offloaded.
  GradientRanges offloaded_ranges() const { return {setup_.place.replica, setup_.grads_leave_summed}; }
  // Returns the region in which the rank sums the unit over its microbatches, and that of its own range after replicas have
  // been added.
  Region sums(std::size_t unit) const;
  Region own_sums(std::size_t unit) const;
  std::size_t unit_of(const Parameter& parameter) const { return unit_of_grad(parameter.grad_offset); }
  // Return the regions of a chunk, as in ParameterLayout.
  Region chunk_grads(int chunk) const;  // without gradients in the pool
  Region partial_grads(int chunk, bool sequence_parallel) const;
  GradientPlaces gradient_places(const Tensor& arena) const;
  // Returns the range of the sums of the first tensor of this role that the rank owns; empty where the rank has none.
  Region own_sums(TensorRole role) const;

  // --- A step's end ---
  // Returns the parts that the optimizer steps, by unit.
  std::vector<std::vector<OptimizerPart>> optimizer_parts() const;
  std::vector<CountedPart> counted(int tp_rank) const;
  // Returns the parts that this rank holds, after replicas have been added, of the gradients of a chunk's slices that have
  // copies on other tensor-parallel ranks. All of these hold the same parts.
  std::vector<CopiedPart> copied(int chunk, const Tensor& arena, const TensorParallel& tp) const;

 private:
  std::size_t whole_at(const HeldPart& part) const { return layout_.parameters[part.parameter].offset + part.begin; }
  std::size_t shard_at(const HeldPart& part) const { return shard_at(part.unit, whole_at(part)); }
  // Returns the offset in the shard of an element of the weight arena that is in the unit's own range.
  std::size_t shard_at(std::size_t unit, std::size_t offset) const;
  std::size_t unit_of_grad(std::size_t grad_offset) const;
  // Returns the offset of the sum of an element of the layout's gradient arena that is in the unit's own range.
  std::size_t own_sum_at(std::size_t grad_offset, std::size_t unit) const;
  void place_gradients();
  // True when the sums of the rank's own range have memory separate from the unit's.
  bool sums_apart(std::size_t unit) const { return is_pooled(unit) && is_sharded() && !setup_.offload.gradients; }
  Region moved(const Region& region, int chunk) const;

  const ParameterLayout& layout_;
  Setup setup_;
  bool rounds_, weights_sharded_;
  std::vector<ShardUnit> units_;
  std::vector<std::size_t> shard_begins_;
  std::size_t shard_ = 0;
  std::vector<HeldPart> held_;
  GradientPool pool_;
  std::vector<std::size_t> chunk_begins_;    // with a pool: the begin of each chunk's gradients with own memory
  std::vector<std::size_t> own_sum_begins_;  // with a pool: by unit
  std::size_t pool_begin_ = 0, grads_ = 0;
};

}  // namespace pipetrain
