// A stage's compute that trains a transformer: a RankCompute for each tensor-parallel rank.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "actors/engine/step.hpp"
#include "actors/ranks/ranked_compute.hpp"
#include "actors/ranks/worker.hpp"
#include "actors/training/rank/rank_compute.hpp"

namespace pipetrain {

class TransformerCompute : public RankedCompute {
 public:
  // ranks: one setup per rank. The workers allocate and load the state of all ranks at once; throws the first failure.
  TransformerCompute(std::vector<RankSetup> ranks, const InitialState& state);
  ~TransformerCompute() override { end_workers(); }

  // The transformer reads activations and targets until the input gradient, received gradients until the weight gradients.
  static schedules::SlotLife slot_life() { return {schedules::ActionKind::input_grad, schedules::ActionKind::weight_grad}; }

  // Returns the elements of a copy of each rank's state, by rank of this part.
  std::vector<std::size_t> copy_elements();

  void verdict(const Verdict& verdict) override;

  // Sets the times at which a step's actions ran on the first rank's device. completed() cannot pass them: events of a
  // device cannot be read in its callbacks.
  std::vector<DeviceActions> add_times(StageTrace& trace) override;
  std::vector<MemoryUse> memory() const override;
  // part.state: weights_state or one of the optimizer's.
  void read_state(std::int64_t number, const StatePart& part, float* out) override;
  std::size_t state_elements(const StatePart& part) const override;
  // Writes a file for each rank that stores something for the run; the report: see rank_file.hpp.
  // A CopyRequest makes it copy states to memory instead, and KeptStates::target() makes it add them to the setup's kept
  // states. Then it reports nothing.
  void save_state(std::int64_t number, const std::string& where) override;

 private:
  struct Saving;
  using OnRank = void (*)(RankCompute& rank, const Saving& saving);

  RankCompute& rank(std::size_t index) const { return static_cast<RankCompute&>(RankedCompute::rank(index)); }
  // Does `begin` on all workers and then `end` on the saver's thread, which returns the report.
  void save(std::shared_ptr<Saving> saving, OnRank begin, std::string (TransformerCompute::*end)(const Saving&));
  std::string write(const Saving& saving);
  std::string keep(const Saving& saving);
  std::string wait_for_copies(const Saving& saving);

  Worker saver_{"saver"};  // writes files; the workers post its jobs
};

}  // namespace pipetrain
