// What one rank keeps from step to step: its weights, their gradients and the optimizer's states, each an arena on the device,
// and what a step's end does to them. All methods run on the rank's worker; but for load() and read() they only enqueue.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/training/gradient_reduction.hpp"
#include "actors/training/rank_setup.hpp"
#include "model/gradient_norm.hpp"
#include "model/optimizer.hpp"
#include "model/parameter_store.hpp"

namespace pipetrain {

// The name of the weights among the states of a rank; the others are Optimizer::states().
inline constexpr const char* weights_state = "weights";

class RankState {
 public:
  // Allocates everything, all zero. What it is given outlives it. Throws Error(out_of_memory).
  RankState(const RankSetup& setup, const ParameterLayout& layout, const TensorParallel& tp, Ops& ops);

  // What the operations read, and where they add gradients.
  ParameterStore& parameters() { return parameters_; }
  const Tensor& grads() const { return arenas_.grads; }

  // Every state that `state` names, from the host. Waits for the device. Throws Error(input) for a state that this rank's
  // optimizer lacks, and what the sources throw.
  void load(const InitialState& state);
  // This rank's slice of a parameter of one state, dense f32, to host memory. Only between steps; waits for the device.
  void read(const std::string& state, const Parameter& parameter, float* out);

  // --- A step's end, in this order ---
  // Whether replicas sum their gradients; then start_reduction() may be called for what is final of them, before reduce().
  bool is_replicated() const { return reduction_ != nullptr; }
  void start_reduction(const Tensor& grads);
  void reduce(int chunk);
  void sum_replicated(int chunk);
  void sum_tied();
  // Sums of squares of counted(), f64, in its order.
  void square_sums(const Tensor& sums);
  const std::vector<std::size_t>& counted() const { return counted_; }  // indices into the layout's parameters
  // The optimizer's step; a step that is skipped is none.
  void step(float lr, float grad_scale);

  // Before and after a rehearsal of a step that nobody wants to keep: everything is zero again.
  void begin_rehearsal();
  void end_rehearsal(const Tensor& sums);
  // Makes a weight NaN, for tests.
  void spoil();

  // Carries sums over replicas; null where there are none.
  Stream* reduction_stream() const { return reduction_ ? &reduction_->stream() : nullptr; }

  // Bytes of the device, before anything is allocated.
  static MemoryUse memory(const RankSetup& setup, const ParameterLayout& layout);

 private:
  Tensor allocate(std::size_t elements, DType dtype, const std::string& what);
  const Tensor& arena(const std::string& state) const;
  void load_arena(const Tensor& arena, const WeightSource& source);

  const RankSetup& setup_;
  const ParameterLayout& layout_;
  TensorParallel tp_;
  Ops& ops_;
  std::unique_ptr<const Optimizer> optimizer_;
  std::vector<Buffer> memory_;
  OptimizerArenas arenas_;
  ResidentParameters parameters_;
  std::vector<std::size_t> counted_;
  std::unique_ptr<GradientReduction> reduction_;  // null: one replica
  std::int64_t applied_steps_ = 0;
};

}  // namespace pipetrain
