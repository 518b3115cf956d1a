// Feeds the ids of a step's runs, which are the step's content, to the first stage. The targets of the last stage are empty.
#pragma once

#include <memory>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "actors/generation/sequence_runs.hpp"
#include "core/device.hpp"

namespace pipetrain {

class RunSource : public InputSource {
 public:
  // first: the devices of the first stage's ranks in this process, if any. Throws Error(out_of_memory).
  RunSource(const RunLimits& limits, const std::vector<Device*>& first);
  void fill(schedules::InputKind kind, const StepInfo& step, int microbatch, Slot& slot) override;

 private:
  RunLimits limits_;
  std::int64_t step_ = 0;  // the step of runs_; steps count from 1
  SequenceRuns runs_;
  Buffer staging_;  // host memory for one run of each sequence; a step's copies have ended when the next step begins
  std::vector<std::unique_ptr<Stream>> streams_;  // by lane
};

}  // namespace pipetrain
