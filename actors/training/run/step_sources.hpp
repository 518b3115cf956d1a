// Gives the pipeline's ends the samples of training steps and of evaluations.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "actors/training/input/step_samples.hpp"
#include "actors/training/input/token_source.hpp"
#include "actors/training/rank/parallel_layout.hpp"

namespace pipetrain {

class StepSources {
 public:
  // The job and the layout must outlive this. evaluation: null where nothing is evaluated.
  StepSources(const TrainJob& job, const ParallelLayout& layout, std::shared_ptr<const StepSamples> training,
              std::shared_ptr<const StepSamples> evaluation);

  // Returns the source for this part of a replica's first and last stage.
  std::shared_ptr<InputSource> make(int replica, int part);
  // Returns the most seconds, over the replicas, that a first stage may have waited for the step's data; no value where
  // another process reads the data of a replica. begin: of the step.
  std::optional<double> longest_wait(const std::vector<StageTrace>& stages, std::int64_t step,
                                     ReadTimes::Clock::time_point begin) const;

 private:
  const TrainJob& job_;
  const ParallelLayout& layout_;
  std::shared_ptr<const StepSamples> training_, evaluation_;
  std::map<int, std::shared_ptr<TokenSource>> read_;  // by replica: training data of replicas whose first stage runs here
};

}  // namespace pipetrain
