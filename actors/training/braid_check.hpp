// What braids go together with.
#pragma once

namespace pipetrain {

struct TrainJob;
namespace schedules {
struct Plan;
}

// Throws Error(input) about the schedule where the plan braids actions of several tensor-parallel ranks in a way that is not
// built. With one rank a stage the actions of a braid follow each other, which goes with everything. processes: of the run,
// also where it is only estimated.
void check_braids(const TrainJob& job, const schedules::Plan& plan, int processes);

}  // namespace pipetrain
