// StepEnd ends the steps of one rank: R, S and T sum gradients, N reports, V previews the optimizer's most likely step,
// and O, after the verdict, runs it.
#pragma once

#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "actors/training/rank/action_clock.hpp"
#include "actors/training/rank/activation_pool.hpp"
#include "actors/training/rank/rank_reports.hpp"
#include "actors/training/rank/rank_state.hpp"

namespace pipetrain {

// Used by the rank's worker; all methods only enqueue.
class StepEnd {
 public:
  // The parts of the rank that take part in a step's end; they must outlive this.
  struct Parts {
    RankState& state;
    RankReports& reports;
    ActivationPool& activations;
    ActionClock& clock;
    Stream& compute;
  };
  explicit StepEnd(const Parts& parts) : rank_(parts) {}

  void begin_step();
  // step: the one whose forwards and backwards were launched last.
  void run(const schedules::Action& action, const StepInfo& step);
  // A forward of the coming step has been launched. If it reads previewed weights, the verdict may take it back.
  void launched_early(const schedules::Action& forward);
  void set_verdict(const Verdict& verdict);
  const StepInfo& ending() const { return ending_; }  // the step whose N was launched last

 private:
  Parts rank_;
  StepInfo ending_;
  bool previewed_ = false;                // in the running step
  std::vector<schedules::Action> early_;  // forwards that read previewed weights
  Verdict verdict_;
};

}  // namespace pipetrain
