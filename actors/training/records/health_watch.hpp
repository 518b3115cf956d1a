// Warns of runs that slowly go wrong: a stage that falls behind, a loss that jumps, a gradient norm that grows, a router that
// sends all tokens to the same experts.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/training/records/profile.hpp"
#include "actors/training/run/trainer.hpp"

namespace pipetrain {

// The thresholds of the warnings; 0: never.
struct WatchSettings {
  double slow = 0.10;            // a stage computes for longer than simulated by this share,
  std::int64_t slow_steps = 20;  // in this many consecutive steps
  double loss_spike = 8;         // a loss exceeds the median of the last 50 by this many of their standard deviations
  double norm_growth = 10;       // the median of 20 norms is this many times its least value so far
  double collapse = 0.9;         // this share of a layer's choices goes to as few experts as a token chooses
};

// Compares each stage with the simulation of a step whose actions take as long as in this run's first steps (slow_steps
// after the first); the warning names the stage's slowest rank. Each warning is given once. Not thread-safe.
class HealthWatch {
 public:
  // The job must have its plan.
  HealthWatch(const TrainJob& job, const WatchSettings& settings);
  // After every step: returns the warnings that it causes, most often none.
  std::vector<std::string> add(const StepReport& report);

 private:
  struct Pace {
    std::int64_t slow_steps = 0;  // in a row
    double excess = 0;            // summed over them
  };

  void simulate_step();
  void watch_stages(const StepReport& report, std::vector<std::string>& lines);
  void watch_loss(const StepReport& report, std::vector<std::string>& lines);
  void watch_routers(const StepReport& report, std::vector<std::string>& lines);
  void watch_norm(const StepReport& report, std::vector<std::string>& lines);

  WatchSettings settings_;
  std::shared_ptr<const schedules::Plan> plan_;
  schedules::Order order_;
  std::optional<ProfileRecorder> profile_;  // until the step has been simulated
  std::int64_t measured_ = 0;
  std::vector<double> simulated_;  // by stage: computing seconds of a step
  std::vector<Pace> paces_;        // by stage
  std::size_t chosen_ = 0;         // experts by each token
  std::set<std::string> reported_;
  std::deque<double> losses_, norms_;
  std::optional<double> least_norm_;
};

}  // namespace pipetrain
