// Feeds the ids of a step's runs to the first stage. The last stage's targets carry nothing.
#pragma once

#include <memory>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "actors/generation/sequence_runs.hpp"
#include "core/device.hpp"

namespace pipetrain {

class RunSource : public InputSource {
 public:
  // first: the devices of the first stage's ranks. Throws Error(out_of_memory).
  RunSource(SharedRuns runs, const std::vector<Device*>& first);
  void fill(schedules::InputKind kind, const StepInfo& step, int microbatch, Slot& slot) override;

 private:
  SharedRuns runs_;
  Buffer staging_;  // a run of each sequence, on the host; a step's copies have been made when the next begins
  std::vector<std::unique_ptr<Stream>> streams_;  // by lane
};

}  // namespace pipetrain
