// What braids go together with.
#pragma once

namespace pipetrain {

class Mesh;
struct TrainJob;
namespace schedules {
struct Plan;
}

// Throws Error(input) about the schedule where the plan braids actions of several tensor-parallel ranks in a way that is not
// built. With one rank a stage the actions of a braid follow each other, which goes with everything. ranks: where each runs, or
// would run where the job is only estimated.
void check_braids(const TrainJob& job, const schedules::Plan& plan, const Mesh& ranks);

}  // namespace pipetrain
