// What must end a run whose stages braid: the same on CPUs and on GPUs.
#pragma once

#include <chrono>
#include <functional>

#include "actors/training/job/train_job.hpp"

namespace pipetrain::test {

// A job of braided-v with two stages of two tensor-parallel ranks, made anew for every run.
using MakeBraids = std::function<TrainJob()>;

// A rank that raises, computes NaN or hangs in the second step ends the run, with its kind of error and nothing left running.
// stall: after which a hang is told.
void check_failing_braids(const MakeBraids& make, std::chrono::milliseconds stall);

// An operation of the one or the other action that throws, at once or some calls late, likewise.
void check_throwing_braids(const MakeBraids& make);

}  // namespace pipetrain::test
