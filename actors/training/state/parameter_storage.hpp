// ParameterStorage keeps the state of a parameter group on one rank between steps: the weights that operations read
// (StepParameters), their gradients (GradientStorage), and the optimizer's data (OptimizerStorage). The parameters of a
// group share a precision, an optimizer and the replicas that have the same weights. Each of the three may be resident,
// divided between replicas, offloaded, or a combination; users need not know which.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/training/offload/offload_streams.hpp"
#include "actors/training/offload/offloaded_array.hpp"
#include "actors/training/places/state_places.hpp"
#include "actors/training/state/gradient_storage.hpp"
#include "actors/training/state/optimizer_storage.hpp"
#include "actors/training/state/state_snapshot.hpp"
#include "actors/training/state/step_parameters.hpp"
#include "actors/training/state/storage_setup.hpp"
#include "actors/training/state/tensor_states.hpp"
#include "model/optimizer/optimizer.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {

// Used by the rank's worker, not thread-safe. All methods but load() and read() only enqueue.
class ParameterStorage {
 public:
  // Allocates zeros. The arguments must outlive it. Throws Error(out_of_memory).
  ParameterStorage(const StorageSetup& setup, Ops& ops);

  ParameterStore& weights() { return *weights_; }
  GradientStorage& gradients() { return *gradients_; }
  const GradientStorage& gradients() const { return *gradients_; }
  const StatePlaces& places() const { return places_; }

  // Loads all elements of a state that this rank holds from the host. Waits for the device. Throws Error(input) for a
  // state that the optimizer lacks, and what the source throws.
  void load(const std::string& state, const WeightSource& source);
  // Called after all states have been loaded.
  void loaded();
  // Copies elements of a held part of a state, dense f32, to host memory. Only between steps; waits for the device.
  void read(const std::string& state, const HeldPart& held, const Region& elements, float* out);
  // Returns the parts of every state that this rank saves (saved_parts()), by index in the group's layout.
  std::vector<HeldState> saved() const;
  // Returns the same for all parts that this rank holds.
  std::vector<HeldState> held() const;
  // Loads the values of held(), dense and in its order, from host memory, those on the device by `transfers` unless it is
  // null. Waits for the device. Returns the end of the values that it has read.
  const float* restore(const float* values, StagedTransfers* transfers);

  // Before a step's first action. applied: the optimizer's steps so far.
  void begin_step(const StepInfo& step, std::int64_t applied);
  // Gives operations the weights that step() would make, without changing the state that the rank keeps: step() with
  // the same numbers makes the same weights, and restore() undoes the preview.
  void preview(const OptimizerStep& step) { optimizer_storage_->preview(gradients_->arena(), step); }
  void restore() { optimizer_storage_->round_weights(); }
  void step(const OptimizerStep& step);

  // Call these before and after a rehearsal of a step, whose results are discarded: everything is zero again.
  void begin_rehearsal();
  void end_rehearsal(const std::vector<CountedPart>& counted, const Tensor& sums);
  // Returns weights that operations can always read, the first of which is a parameter's.
  Tensor settled() { return weights_->settled(); }

  // Returns the streams of transfers between replicas, and to and from storage outside of the device.
  std::vector<Stream*> transfer_streams();

 private:
  void make_optimizer_storage(Ops& ops);
  void make_gradients(Ops& ops);
  void make_weights();
  std::vector<std::string> states() const;  // the weights, and those of the optimizer
  // Returns the parts of a state that this rank holds.
  std::vector<TensorStates::Part> parts_of(const std::string& state) const;
  HeldState held_state(const std::string& state, const TensorStates::Part& part) const;
  // Returns the offset of a held part in this state's array, of a state that is stored like the weights.
  std::size_t begin_of(const std::string& state, const HeldPart& part) const;

  StorageSetup setup_;
  Stream& stream_;
  std::unique_ptr<const Optimizer> optimizer_;
  StatePlaces places_;
  std::optional<OffloadStreams> offload_streams_;
  std::optional<TensorStates> tensor_states_;  // of an optimizer of whole tensors
  std::unique_ptr<OffloadedArray> operands_;   // null: the weights that operations read are on the device
  std::unique_ptr<OptimizerStorage> optimizer_storage_;
  std::unique_ptr<GradientStorage> gradients_;
  std::unique_ptr<StepParameters> weights_;
};

}  // namespace pipetrain
