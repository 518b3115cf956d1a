// What one rank keeps from step to step, and what a step's end does to it. Where it lies is up to its ParameterStorage. All
// methods run on the rank's worker; but for load(), read() and snapshot() they only enqueue.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/training/rank/rank_setup.hpp"
#include "actors/training/state/parameter_storage.hpp"
#include "model/parameters/gradient_sums.hpp"

namespace pipetrain {

class RankState {
 public:
  // Allocates everything, all zero. What it is given outlives it. Throws Error(out_of_memory).
  RankState(const RankSetup& setup, const ParameterLayout& layout, const TensorParallel& tp, Ops& ops);

  // What the operations read, and where they add gradients.
  ParameterStore& parameters() { return storage_.weights(); }
  GradientPlaces gradient_places() const { return storage_.gradients().places(); }
  // See GradientStorage.
  bool shares_gradient_memory() const { return storage_.gradients().opens(); }
  void open_gradients(std::size_t block) { storage_.gradients().open(block); }
  bool offloads_gradients() const { return storage_.gradients().closes(); }
  void close_gradients(std::size_t block, bool last) { storage_.gradients().close(block, last); }

  // Every state that `state` names, from the host. Waits for the device. Throws Error(input) for a state that this rank's
  // optimizer lacks, and what the sources throw.
  void load(const InitialState& state);
  // Some of what this rank holds (StatePlaces::held) of one state, dense f32, to host memory. Only between steps; waits for the
  // device. Throws Error(internal) for what it does not hold.
  void read(const StatePart& part, float* out);
  // Throws Error(internal) likewise.
  const HeldPart& holder(const StatePart& part) const;
  // See ParameterStorage.
  StateSnapshot& snapshot() { return storage_.snapshot(); }

  // Before a step's first action.
  void begin_step(schedules::StepKind kind) { storage_.begin_step(kind); }

  // --- A step's end, in this order ---
  // Whether replicas sum their gradients; then start_reduction() may be called for what is final of them, before reduce().
  bool is_replicated() const { return storage_.gradients().is_replicated(); }
  void start_reduction(const Tensor& grads) { storage_.gradients().start_reduction(grads); }
  void reduce(int chunk) { storage_.gradients().reduce(chunk); }
  void sum_replicated(int chunk);
  void sum_tied();
  // Sums of squares of what this rank counts in the norm (counted_parts()), f64, in its order.
  void square_sums(const Tensor& sums) { storage_.gradients().square_sums(counted_, sums); }
  std::size_t sum_count() const { return count_sums(counted_); }
  // Puts into what operations read the weights that step() would make, where the setup says that steps are previewed; restore()
  // undoes it.
  void preview(float lr, float grad_scale) { storage_.preview({lr, applied_steps_ + 1, grad_scale}); }
  void restore() { storage_.restore(); }
  // The optimizer's step; a step that is skipped is none.
  void step(float lr, float grad_scale) { storage_.step({lr, ++applied_steps_, grad_scale}); }

  // Before and after a rehearsal of a step that nobody wants to keep: everything is zero again.
  void begin_rehearsal() { storage_.begin_rehearsal(); }
  void end_rehearsal(const Tensor& sums) { storage_.end_rehearsal(counted_, sums); }
  // Makes a weight NaN, for tests.
  void spoil();

  // That carry what goes between replicas, and to and from where states are offloaded.
  std::vector<Stream*> transfer_streams() { return storage_.transfer_streams(); }

  // Bytes of the device, before anything is allocated.
  static MemoryUse memory(const RankSetup& setup, const ParameterLayout& layout);

 private:
  TiedGrads tied_sums() const;

  const RankSetup& setup_;
  const ParameterLayout& layout_;
  TensorParallel tp_;
  Ops& ops_;
  ParameterStorage storage_;
  std::vector<CountedPart> counted_;
  std::int64_t applied_steps_ = 0;
};

}  // namespace pipetrain
