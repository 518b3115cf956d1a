// ParameterStorage keeps what one rank needs from step to step of a parameter group, whose parameters share a precision, an
// optimizer and the replicas that have the same weights: the weights that operations read (StepParameters), their gradients
// (GradientStorage), and what the optimizer keeps (OptimizerStorage). Each of the three is resident, divided between replicas,
// outside of the device, or several of these, and nobody who uses them needs to know which.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/training/offload/offload_streams.hpp"
#include "actors/training/offload/offloaded_array.hpp"
#include "actors/training/state/gradient_storage.hpp"
#include "actors/training/state/optimizer_storage.hpp"
#include "actors/training/state/state_places.hpp"
#include "actors/training/state/state_snapshot.hpp"
#include "actors/training/state/step_parameters.hpp"
#include "actors/training/state/storage_setup.hpp"
#include "model/optimizer/optimizer.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {

// Used by the rank's worker, not thread-safe. All methods but load() and read() only enqueue.
class ParameterStorage {
 public:
  // Allocates everything, all zero. What it is given outlives it. Throws Error(out_of_memory).
  ParameterStorage(const StorageSetup& setup, Ops& ops);

  ParameterStore& weights() { return *weights_; }
  GradientStorage& gradients() { return *gradients_; }
  const GradientStorage& gradients() const { return *gradients_; }
  const StatePlaces& places() const { return places_; }

  // Every element of a state that this rank holds, from the host. Waits for the device. Throws Error(input) for a state that
  // the optimizer lacks, and what the source throws.
  void load(const std::string& state, const WeightSource& source);
  // All states have been loaded.
  void loaded();
  // Elements of a held part of a state, dense f32, to host memory. Only between steps; waits for the device.
  void read(const std::string& state, const HeldPart& held, const Region& elements, float* out);
  // The parts of every state that this rank saves (saved_parts()), by their index in the group's layout.
  std::vector<HeldState> saved() const;

  // Before a step's first action.
  void begin_step(schedules::StepKind kind);
  // Puts into what operations read the weights that step() would make. What the rank keeps from step to step is not touched:
  // step() with the same numbers makes it so, and restore() undoes the preview.
  void preview(const OptimizerStep& step) { optimizer_storage_->preview(gradients_->arena(), step); }
  void restore() { optimizer_storage_->round_weights(); }
  void step(const OptimizerStep& step);

  // Before and after a rehearsal of a step that nobody wants to keep: everything is zero again.
  void begin_rehearsal();
  void end_rehearsal(const std::vector<CountedPart>& counted, const Tensor& sums);
  // Weights that are always there for operations to read, of which the first is a parameter's.
  Tensor settled() { return weights_->settled(); }

  // Streams that carry what goes between replicas, and to and from what is outside.
  std::vector<Stream*> transfer_streams();

 private:
  void make_optimizer_storage(Ops& ops);
  void make_gradients(Ops& ops);
  void make_weights();
  // The element of this state's array with which a held part begins.
  std::size_t begin_of(const std::string& state, const HeldPart& part) const;

  StorageSetup setup_;
  Stream& stream_;
  std::unique_ptr<const Optimizer> optimizer_;
  StatePlaces places_;
  std::optional<OffloadStreams> offload_streams_;
  std::unique_ptr<OffloadedArray> operands_;  // null: weights that operations read are on the device
  std::unique_ptr<OptimizerStorage> optimizer_storage_;
  std::unique_ptr<GradientStorage> gradients_;
  std::unique_ptr<StepParameters> weights_;
};

}  // namespace pipetrain
