// Failures that must end a run whose stages braid, on CPUs as on GPUs.
#pragma once

#include <chrono>
#include <functional>

#include "actors/training/job/train_job.hpp"

namespace pipetrain::test {

// Makes a new job of braided-v, with two stages of two tensor-parallel ranks, for every run.
using MakeBraids = std::function<TrainJob()>;

// Checks that a rank that raises, computes NaN or hangs in the second step ends the run, with its kind of error and
// nothing left running. stall: the time after which a hang is reported.
void check_failing_braids(const MakeBraids& make, std::chrono::milliseconds stall);

// Checks the same of an operation of either action that throws, at once or some calls later.
void check_throwing_braids(const MakeBraids& make);

}  // namespace pipetrain::test
