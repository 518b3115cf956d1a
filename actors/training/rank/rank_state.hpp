// What one rank keeps from step to step: its weights, their gradients and the optimizer's states, each an arena on the device,
// or its replica's shard of one (StatePlaces), or outside of it (OffloadedOptimizer), and what a step's end does to them. All
// methods run on the rank's worker; but for load() and read() they only enqueue.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/training/offload/offload_streams.hpp"
#include "actors/training/offload/offloaded_array.hpp"
#include "actors/training/rank/rank_setup.hpp"
#include "actors/training/state/gradient_reduction.hpp"
#include "actors/training/state/offloaded_gradients.hpp"
#include "actors/training/state/offloaded_optimizer.hpp"
#include "actors/training/state/owner_sums.hpp"
#include "actors/training/state/state_places.hpp"
#include "actors/training/state/state_snapshot.hpp"
#include "actors/training/state/step_parameters.hpp"
#include "model/parameters/gradient_sums.hpp"
#include "model/parameters/parameter_store.hpp"

namespace pipetrain {

class RankState {
 public:
  // Allocates everything, all zero. What it is given outlives it. Throws Error(out_of_memory).
  RankState(const RankSetup& setup, const ParameterLayout& layout, const TensorParallel& tp, Ops& ops);

  // What the operations read, and where they add gradients.
  ParameterStore& parameters() { return *parameters_; }
  GradientPlaces gradient_places() const { return places_.gradient_places(arenas_.grads); }
  // Whether open_gradients() must be called before something is added to gradients of a block.
  bool shares_gradient_memory() const { return places_.pools(); }
  void open_gradients(std::size_t block);
  // Whether close_gradients() must be called once it has been added.
  bool offloads_gradients() const { return offloaded_grads_ != nullptr; }
  void close_gradients(std::size_t block, bool last) { offloaded_grads_->close(block, last); }

  // Every state that `state` names, from the host. Waits for the device. Throws Error(input) for a state that this rank's
  // optimizer lacks, and what the sources throw.
  void load(const InitialState& state);
  // Some of what this rank holds (StatePlaces::held) of one state, dense f32, to host memory. Only between steps; waits for the
  // device. Throws Error(internal) for what it does not hold.
  void read(const StatePart& part, float* out);
  // Throws Error(internal) likewise.
  const HeldPart& holder(const StatePart& part) const;
  // Of what this rank saves (saved_parts()): every step waits until the last moment taken has been copied. Allocated by the
  // first call, where the setup does not say that it saves.
  StateSnapshot& snapshot();

  // Before a step's first action.
  void begin_step(schedules::StepKind kind);

  // --- A step's end, in this order ---
  // Whether replicas sum their gradients; then start_reduction() may be called for what is final of them, before reduce().
  bool is_replicated() const { return reduction_ != nullptr; }
  void start_reduction(const Tensor& grads);
  void reduce(int chunk);
  void sum_replicated(int chunk);
  void sum_tied();
  // Sums of squares of what this rank counts in the norm (counted_parts()), f64, in its order.
  void square_sums(const Tensor& sums);
  std::size_t sum_count() const { return count_sums(counted_); }
  // Puts into what operations read the weights that step() would make, where the setup says that steps are previewed. What the
  // rank keeps from step to step is not touched: step() with the same numbers makes it so, and restore() undoes the preview.
  void preview(float lr, float grad_scale);
  void restore();
  // The optimizer's step; a step that is skipped is none.
  void step(float lr, float grad_scale);

  // Before and after a rehearsal of a step that nobody wants to keep: everything is zero again.
  void begin_rehearsal();
  void end_rehearsal(const Tensor& sums);
  // Makes a weight NaN, for tests.
  void spoil();

  // That carry what goes between replicas, and to and from where states are offloaded.
  std::vector<Stream*> transfer_streams() const;

  // Bytes of the device, before anything is allocated.
  static MemoryUse memory(const RankSetup& setup, const ParameterLayout& layout);

 private:
  struct Length {
    std::size_t elements = 0;
    DType dtype = DType::f32;
  };
  static StatePlaces::Setup places_setup(const RankSetup& setup);
  Tensor allocate(const Length& length, const std::string& what);
  void allocate_arenas();
  void make_offloaded();
  void make_offloaded_gradients();
  // Before the unit's gradients are read.
  void read_gradients(std::optional<std::size_t> unit) {
    if (offloaded_grads_) offloaded_grads_->read(unit);
  }
  std::vector<HeldState> held() const;
  const Tensor& arena(const std::string& state) const;
  // Where a held part begins in this state's arena.
  std::size_t place(const std::string& state, const HeldPart& part) const;
  bool is_offloaded(const std::string& state) const;
  void load_state(const std::string& state, const WeightSource& source);
  // Elements of a state on the device, from the host; waits for it.
  void write(const std::string& state, std::size_t begin, const float* values, std::size_t count);
  void round_weights();
  void run_optimizer(const OptimizerStep& step, const std::function<void(std::size_t unit)>& stepped);
  // Of the weights, what operations read, or what is gathered for them to read; without memory where that is outside.
  const Tensor& operands() const { return arenas_.rounded.data ? arenas_.rounded : arenas_.weights; }
  void make_parameters();
  std::unique_ptr<StepParameters> make_divided_parameters();
  std::unique_ptr<StepParameters> make_fetched_parameters();
  void make_reduction();
  Tensor grads(const Region& region) const;
  TiedGrads tied_sums() const;

  const RankSetup& setup_;
  const ParameterLayout& layout_;
  TensorParallel tp_;
  Ops& ops_;
  std::unique_ptr<const Optimizer> optimizer_;
  std::vector<Buffer> memory_;
  StatePlaces places_;
  OptimizerArenas arenas_;
  std::vector<std::vector<OptimizerPart>> steps_;  // by unit
  std::vector<CountedPart> counted_;
  std::optional<OffloadStreams> offload_streams_;
  std::unique_ptr<OffloadedArray> operands_;  // null: they are on the device
  std::unique_ptr<OffloadedArray> outside_grads_;
  std::unique_ptr<OffloadedGradients> offloaded_grads_;  // null: they are on the device
  std::unique_ptr<OffloadedOptimizer> offloaded_;        // null: all that it steps are arenas
  std::shared_ptr<OwnerSums> owner_sums_;                // null: all replicas keep all sums
  std::unique_ptr<GradientReduction> reduction_;         // null: one replica
  std::unique_ptr<ParameterStore> parameters_;
  StepParameters* coming_ = nullptr;  // the same, where weights are not always there
  Tensor gathered_;                   // what they come into; without memory: nothing is gathered or fetched
  std::int64_t applied_steps_ = 0;
  std::optional<StateSnapshot> snapshot_;
};

}  // namespace pipetrain
