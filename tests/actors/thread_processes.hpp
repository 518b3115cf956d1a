// Several processes of a run as threads of the test, each with a Trainer of its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "actors/ranks/run_processes.hpp"
#include "actors/training/run/trainer.hpp"
#include "golden_run.hpp"
#include "memory_processes.hpp"

namespace pipetrain::test {

// The work of process `process` of the run; it may end with an error.
using ProcessWork = std::function<void(int process, TrainJob job)>;
using JobOfProcess = std::function<TrainJob(int process)>;

// Does the work in as many processes as the hub has. Returns the error of each, "" for none: a failed run's includes
// the lines that say which stage waited for what, and whether something was left running.
std::vector<std::string> in_processes(const std::shared_ptr<MemoryHub>& hub, const JobOfProcess& job, const ProcessWork& work);

// Process 0 does the work with its trainer; the others follow.
std::vector<std::string> lead(const std::shared_ptr<MemoryHub>& hub, const JobOfProcess& job,
                              const std::function<void(Trainer&)>& work);

// Runs two steps of the job over this many processes; checks that none fails.
RunRecord run_over(int processes, const std::function<TrainJob()>& make_job);

}  // namespace pipetrain::test
