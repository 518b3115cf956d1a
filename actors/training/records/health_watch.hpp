// Watches a run for what ends well-meant runs slowly: a stage that falls behind, a loss that jumps, a gradient norm that grows.
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

// When something is told; 0: never.
struct WatchSettings {
  double slow = 0.10;            // a stage computes for longer than simulated by this share
  std::int64_t slow_steps = 20;  // in so many steps in a row
  double loss_spike = 8;         // a loss lies above the median of the last 50 by so many of their standard deviations
  double norm_growth = 10;       // the median of 20 norms is so many times the least that it has been
};

// A stage is compared with the simulation of a step whose actions cost what they cost this run in its first steps (slow_steps,
// behind the first); the rank named is the slowest of the stage. Each of these is told once. Not thread-safe.
class HealthWatch {
 public:
  // The job has its plan.
  HealthWatch(const TrainJob& job, const WatchSettings& settings);
  // After every step: lines that tell what was noticed with it, most often none.
  std::vector<std::string> add(const StepReport& report);

 private:
  struct Pace {
    std::int64_t slow_steps = 0;  // in a row
    double excess = 0;            // summed over them
  };

  void simulate_step();
  void watch_stages(const StepReport& report, std::vector<std::string>& lines);
  void watch_loss(const StepReport& report, std::vector<std::string>& lines);
  void watch_norm(const StepReport& report, std::vector<std::string>& lines);

  WatchSettings settings_;
  std::shared_ptr<const schedules::Plan> plan_;
  schedules::Order order_;
  std::optional<ProfileRecorder> profile_;  // until the step has been simulated
  std::int64_t measured_ = 0;
  std::vector<double> simulated_;  // by stage: seconds that it computes in a step
  std::vector<Pace> paces_;        // by stage
  std::set<std::string> told_;
  std::deque<double> losses_, norms_;
  std::optional<double> least_norm_;
};

}  // namespace pipetrain
