// RankState holds the state that one rank keeps between steps, and changes it at a step's end. GroupStorages decides
// where it is stored. All methods run on the rank's worker; except load(), read() and snapshot(), they only enqueue.
// Parameters are named by their index in the layout of the whole rank.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "actors/training/copies/rank_copies.hpp"
#include "actors/training/rank/group_storages.hpp"
#include "actors/training/rank/rank_setup.hpp"
#include "actors/training/rank/reference_weights.hpp"
#include "actors/training/state/state_snapshot.hpp"
#include "model/parameters/gradient_sums.hpp"

namespace pipetrain {

class RankState {
 public:
  // Allocates zeros, also for the reference of a preference loss that has one. The arguments must outlive it. Throws
  // Error(out_of_memory).
  RankState(const RankSetup& setup, const ParameterLayout& layout, const TensorParallel& tp, Ops& ops);

  // The weights that operations read, and the memory to which they add gradients.
  ParameterStore& parameters() { return storages_.parameters(); }
  // The weights of the model that preferences are compared with; the rank must have one. free_reference() gives their memory
  // back, once the device has run all work that reads them.
  ParameterStore& reference() { return reference_->weights(); }
  void free_reference() { reference_.reset(); }
  GradientPlaces gradient_places() const { return storages_.gradient_places(); }
  // See GradientStorage.
  bool shares_gradient_memory() const { return any_gradients(&GradientStorage::opens); }
  void open_gradients(std::size_t block);
  bool offloads_gradients() const { return any_gradients(&GradientStorage::closes); }
  void close_gradients(std::size_t block, bool last);

  // Loads every state that `state` names from the host. Waits for the device. Throws Error(input) for a state that this
  // rank's optimizer lacks, and what the sources throw.
  void load(const InitialState& state);
  // Continues from the setup's copy, if it has one, in place of loading: frozen weights still come from `state`. Throws
  // Error(internal) for a copy that is not whole or of another rank.
  void load_or_continue(const InitialState& state);
  // Copies the state after this training step if the setup keeps copies, unless that has been done. Later steps wait until
  // it has been copied.
  void keep_copy(std::int64_t step);
  // Returns what makes these copies; null where the setup keeps none.
  RankCopies* copies() { return copies_ ? &*copies_ : nullptr; }
  // Copies a part of one state, dense f32, to host memory: one that this rank holds (StatePlaces::held, and frozen
  // weights). Only between steps; waits for the device. Both throw Error(internal) for a part that it does not hold.
  void read(const StatePart& part, float* out) { storages_.read(part, out); }
  void check_holds(const StatePart& part) const { storages_.check_holds(part); }
  // Returns a snapshot of the state that this rank saves: later steps wait until it has been copied. Allocated by the first
  // call, unless the setup says that the rank saves and the memory is not that from which it begins.
  StateSnapshot& snapshot();
  // Adds the snapshot that was taken, once it is complete, to the setup's kept states. For any thread.
  void keep_snapshot();

  // Before a step's first action.
  void begin_step(const StepInfo& step);

  // --- A step's end, in this order ---
  // True when replicas sum their gradients; start_reduction() may then be called for final gradients, before reduce().
  bool is_replicated() const { return any_gradients(&GradientStorage::is_replicated); }
  void start_reduction(const Tensor& grads);
  void reduce(int chunk);
  void sum_replicated(int chunk);
  void sum_tied();
  // Writes the sums of squares that this rank counts in the norm, f64: counted_parts() of each group's layout, the
  // groups in the order of group_layouts().
  void square_sums(const Tensor& sums);
  std::size_t sum_count() const;
  // Gives operations the weights that step() would make, if the setup previews steps; restore() undoes this.
  void preview(float lr, float grad_scale);
  void restore();
  // Runs the optimizer's step, whose number it knows itself; not called for a skipped step.
  void step(OptimizerStep step);

  // Call these before and after a rehearsal of a step, whose results are discarded: everything is zero again.
  void begin_rehearsal();
  void end_rehearsal(const Tensor& sums);
  // Makes a weight NaN, for tests.
  void spoil();

  // Returns the streams of transfers between replicas, and to and from offloaded state.
  std::vector<Stream*> transfer_streams();

  // Returns the bytes on the device, before anything is allocated.
  static MemoryUse memory(const RankSetup& setup, const ParameterLayout& layout);

 private:
  bool any_gradients(bool (GradientStorage::*has)() const) const;
  TiedGrads tied_sums(const TrainedGroup& group) const;

  const RankSetup& setup_;
  const ParameterLayout& layout_;
  TensorParallel tp_;
  Ops& ops_;
  GroupStorages storages_;
  std::unique_ptr<ReferenceWeights> reference_;  // null: none
  const std::shared_ptr<SnapshotMemory> snapshot_memory_;
  std::optional<StateSnapshot> snapshot_;
  std::optional<RankCopies> copies_;  // where the setup keeps copies
  std::int64_t applied_steps_ = 0;
};

}  // namespace pipetrain
