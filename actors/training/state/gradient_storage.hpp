// The gradients of a parameter group on one rank: the arena that operations add to, or the slots in which blocks share memory,
// and the sums over the replicas that have the same weights. OffloadedGradientStorage keeps them outside of the device between
// uses.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/training/state/gradient_reduction.hpp"
#include "actors/training/state/owner_sums.hpp"
#include "actors/training/state/state_places.hpp"
#include "core/buffer.hpp"
#include "core/device.hpp"
#include "core/process_group.hpp"
#include "model/parameters/gradient_norm.hpp"
#include "model/parameters/gradient_places.hpp"
#include "ops/ops.hpp"

namespace pipetrain {

// Used by the rank's worker, not thread-safe; everything only enqueues.
class GradientStorage {
 public:
  struct Setup {
    const ParameterLayout& layout;  // of the group
    const StatePlaces& places;
    Device& device;
    Ops& ops;                         // of the rank
    std::shared_ptr<Group> replicas;  // null: one replica
    DType type = DType::f32;
    std::string rank;  // for errors
  };
  // Allocates; all zero. Everything outlives it. Throws Error(out_of_memory).
  explicit GradientStorage(const Setup& setup) : GradientStorage(setup, Placement::anywhere) {}
  virtual ~GradientStorage() { finish_before_freeing(setup_.ops.stream()); }
  GradientStorage(const GradientStorage&) = delete;
  GradientStorage& operator=(const GradientStorage&) = delete;

  const Tensor& arena() const { return arena_; }
  Tensor part(const Region& region) const;
  GradientPlaces places() const { return setup_.places.gradient_places(arena_); }
  // Carries the sums over replicas, and whatever else goes between them; null: one replica.
  Stream* transfer() { return reduction_ ? &reduction_->stream() : nullptr; }

  // Before a step's first action.
  virtual void begin_step();
  // Whether open() must be called before something is added to gradients of a block, and close() once it has been.
  bool opens() const { return setup_.places.pools(); }
  virtual void open(std::size_t block) { owner_sums_->open(setup_.ops.stream(), block); }
  virtual bool closes() const { return false; }
  virtual void close(std::size_t, bool /*last*/) {}

  // --- A step's end ---
  // Whether replicas sum their gradients; then start_reduction() may be called for what is final of them, before reduce().
  bool is_replicated() const { return reduction_ != nullptr; }
  virtual void start_reduction(const Tensor& grads) { reduction_->start(setup_.ops.stream(), grads); }
  virtual void reduce(int chunk);
  // sums [count_sums(counted)] f64: the sums of squares of these parts, in their order.
  virtual void square_sums(const std::vector<CountedPart>& counted, const Tensor& sums);
  // For a reader, in the order of units: the unit's sums are in the arena for what is enqueued until the next call. Without a
  // unit the reader is done.
  virtual void read(std::optional<std::size_t> /*unit*/) {}

 protected:
  enum class Placement { anywhere, whole_pages };  // of the arena's begin
  GradientStorage(const Setup& setup, Placement placement);

  const Setup& setup() const { return setup_; }
  GradientReduction* reduction() { return reduction_.get(); }
  // Enqueues on `transfer` that the replicas' sums of all of a unit are in its place, at least this replica's run.
  void sum_unit(Stream& transfer, std::size_t unit);

 private:
  void make_reduction(bool opens_units);

  Setup setup_;
  Buffer memory_;
  Tensor arena_;
  std::shared_ptr<OwnerSums> owner_sums_;         // null: all replicas keep all sums
  std::unique_ptr<GradientReduction> reduction_;  // null: one replica
};

}  // namespace pipetrain
