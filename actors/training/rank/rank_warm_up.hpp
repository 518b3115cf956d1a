// Warms a rank up before its first step on a GPU.
#pragma once

#include "actors/training/rank/activation_pool.hpp"
#include "actors/training/rank/rank_model.hpp"
#include "actors/training/rank/rank_reports.hpp"
#include "actors/training/rank/rank_setup.hpp"
#include "actors/training/rank/rank_state.hpp"
#include "actors/training/rank/step_inputs.hpp"

namespace pipetrain {

// The parts of a rank that warm up together.
struct WarmUp {
  const RankSetup& setup;
  Stream& compute;
  RankModel& model;
  RankState& state;
  StepInputs& inputs;
  ActivationPool& activations;
  const RankReports& reports;

  // Runs every kind of action on zeros, without the other ranks: libraries make their plans, kernels are loaded and
  // scratch memory grows now rather than in a step. Leaves weights and moments at zero. Waits for the device.
  void run() const;

 private:
  void run_microbatch(int chunk, const ForwardArgs& longest, const BackwardArgs& backward) const;
  Tensor of_slice(Tensor longest, int slice) const;
};

}  // namespace pipetrain
