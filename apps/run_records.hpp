// The files that tell about a whole training run once it has ended: --trace and --profile.
#pragma once

#include <optional>

#include "actors/training/profile.hpp"
#include "actors/training/run_timeline.hpp"
#include "apps/train_options.hpp"

namespace pipetrain {

class RunRecords {
 public:
  // Keeps nothing that the options do not ask for; they must outlive this.
  RunRecords(const TrainOptions& options, const TrainJob& job);
  void add(const StepReport& report);
  // Both files whole or neither; nothing when no step was added. Throws Error(input).
  void write() const;

 private:
  const TrainOptions& options_;
  std::optional<RunTimeline> timeline_;
  std::optional<ProfileRecorder> profile_;
  bool has_steps_ = false;
};

}  // namespace pipetrain
