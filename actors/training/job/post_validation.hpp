// Steps that begin before the verdict on the one before (TrainJob::post_validation): what they go with, and how they are
// counted.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "actors/engine/trace.hpp"
#include "schedules/plan/validate.hpp"

namespace pipetrain {

class Mesh;
struct TrainJob;

// Throws Error(input) for a job with post-validation that has something which is not built with it.
void check_post_validation(const TrainJob& job);
// Likewise, where the ranks of a stage run in several processes; `stages`: its mesh has a rank for each part of one.
void check_post_validation(const TrainJob& job, const Mesh& stages);

// By stage: whether it is done with a step of the plan half a forward or more before the last one, where F = I = W, and so has
// the time to begin the coming one. `needs`: what validate() gave.
std::vector<bool> stages_that_wait(const schedules::Plan& plan, const std::vector<schedules::StageNeeds>& needs);

// The share of time in which stages ran nothing, of steps that overlap: from each stage's last N to its N of this step. So it
// counts what lies between two steps too, which the bubble of steps that do not overlap leaves out.
class OverlappedBubble {
 public:
  struct Shares {
    double all = 0;
    std::vector<std::optional<double>> stages;  // as the traces are ordered
  };
  // Of steps one behind the other. Nothing where this one was not announced to the one before.
  std::optional<Shares> add(const std::vector<StageTrace>& stages, bool announced);

 private:
  struct Tail {
    std::chrono::steady_clock::time_point norm_end{};
    double busy = 0;  // seconds behind it, in the same step
  };
  std::vector<Tail> tails_;  // by stage
};

// Whether a stage went ahead in this step before the verdict.
bool previewed(const std::vector<StageTrace>& stages);

}  // namespace pipetrain
