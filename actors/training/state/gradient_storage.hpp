// The gradients of a parameter group on one rank: the arena that operations add to, or the slots in which blocks share
// memory, and the sums over the replicas that have the same weights. OffloadedGradientStorage keeps gradients outside
// of the device between uses.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/training/copies/state_copier.hpp"
#include "actors/training/places/state_places.hpp"
#include "actors/training/sums/compressed_gradients.hpp"
#include "actors/training/sums/gradient_reduction.hpp"
#include "actors/training/sums/owner_sums.hpp"
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
    Ops& ops;                          // of the rank
    std::shared_ptr<Group> replicas;   // null: one replica
    std::shared_ptr<Stream> transfer;  // between replicas
    DType type = DType::f32;
    CompressedTensors::Setup compression = {};
    std::string rank;  // for errors
  };
  // Allocates zeros. The setup's references must outlive it. Throws Error(out_of_memory).
  explicit GradientStorage(const Setup& setup) : GradientStorage(setup, Placement::anywhere) {}
  virtual ~GradientStorage() { finish_before_freeing(setup_.ops.stream()); }
  GradientStorage(const GradientStorage&) = delete;
  GradientStorage& operator=(const GradientStorage&) = delete;

  const Tensor& arena() const { return arena_; }
  Tensor part(const Region& region) const;
  GradientPlaces places() const { return setup_.places.gradient_places(arena_); }
  // Returns the stream of all transfers between replicas; null: one replica.
  Stream* transfer() { return reduction_ ? &reduction_->stream() : nullptr; }

  // Before a step's first action.
  virtual void begin_step();
  // True when open() must be called before gradients of a block are added to, and close() afterwards.
  bool opens() const { return setup_.places.pools(); }
  virtual void open(std::size_t block) { owner_sums_->open(setup_.ops.stream(), block); }
  virtual bool closes() const { return false; }
  virtual void close(std::size_t, bool /*last*/) {}

  // --- A step's end ---
  // True when replicas sum their gradients; start_reduction() may then be called for final gradients, before reduce().
  bool is_replicated() const { return reduction_ != nullptr; }
  virtual void start_reduction(const Tensor& grads) { reduction_->start(setup_.ops.stream(), grads); }
  virtual void reduce(int chunk);
  // sums [count_sums(counted)] f64: the sums of squares of these parts, in their order.
  virtual void square_sums(const std::vector<CountedPart>& counted, const Tensor& sums);
  // Returns the errors of compressed sums; null: nothing is compressed.
  CompressedGradients* compressed() { return compressed_.get(); }
  // Adds these errors, every replica its own.
  void add_errors(std::vector<HeldState>& states) const;
  // Makes the unit's sums available in the arena to work that is enqueued before the next call. A reader goes through the
  // units in order, and ends the reading by a call without a unit.
  virtual void read(std::optional<std::size_t> /*unit*/) {}

 protected:
  enum class Placement { anywhere, whole_pages };  // the alignment of the arena
  GradientStorage(const Setup& setup, Placement placement);

  const Setup& setup() const { return setup_; }
  GradientReduction* reduction() { return reduction_.get(); }
  // Enqueues on `transfer` that all of the unit's sums over the replicas, or at least this replica's range, are in
  // their memory.
  void sum_unit(Stream& transfer, std::size_t unit);

 private:
  void make_reduction(bool opens_units);

  Setup setup_;
  Buffer memory_;
  Tensor arena_;
  std::unique_ptr<CompressedGradients> compressed_;  // null: sums are in fp32
  std::shared_ptr<OwnerSums> owner_sums_;            // null: all replicas keep all sums
  std::unique_ptr<GradientReduction> reduction_;     // null: one replica
};

}  // namespace pipetrain
