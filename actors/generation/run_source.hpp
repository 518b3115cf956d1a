// Feeds the ids of a step's runs, which are its content, to the first stage. The last stage's targets carry nothing.
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
  std::int64_t step_ = 0;  // that runs_ are of; steps count from 1
  SequenceRuns runs_;
  Buffer staging_;  // a run of each sequence, on the host; a step's copies have been made when the next begins
  std::vector<std::unique_ptr<Stream>> streams_;  // by lane
};

}  // namespace pipetrain
