// Measures how the time of a step is divided.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "actors/training/run/trainer.hpp"
#include "bench/gpu/rows.hpp"
#include "bench/gpu/timed_ops.hpp"

namespace pipetrain::bench {

// Shares of the devices' time in a step, means over devices. All except launch_bound add up to 1: `host` is the
// remainder, and may be a little below zero, because the operations are those of another step.
struct TimeShares {
  double seconds = 0;   // of the step
  double matrices = 0;  // matrix products, at the time that they take a single rank
  double attention = 0;
  double elementwise = 0;  // all other operations, the optimizer and the norm, and the sum of tied weights on one stage
  // The time that tensor-parallel communication adds to operations, and the sums at the end of a step.
  double communication = 0;
  double bubble = 0;  // no action runs, between the step's first and its last, except for the verdict
  double host = 0;    // before and after these, the verdict, and gaps between the operations of an action
  // The share of those actions that the device ended within a twentieth of their time after the host had enqueued all
  // of their work: the device had waited for the host, and the operations' own times include some of that.
  double launch_bound = 0;
};

// `operations`: for each device, in one step with timed operations; `devices` and `seconds`: of another step without.
TimeShares time_shares(const std::vector<DeviceTrace>& devices, double seconds,
                       const std::vector<OpTimes::Seconds>& operations);

struct StepMeasures {
  TimeShares shares;
  // Bytes by device: by how much the free memory that the driver reports has fallen between the first allocation and
  // the end of the steps, without the context. Zero on the CPU.
  std::vector<double> taken;
};

// Runs some steps of the row in this process: `warmup`, then three of which the middle one counts, then four with timed
// operations, of which the middle one of the last three counts.
StepMeasures measure_step(const Row& row, const Schedule& schedule, const std::filesystem::path& tokens, int warmup);

std::string to_json(const StepMeasures& measures);
StepMeasures measures_from_json(const std::string& text);

}  // namespace pipetrain::bench
