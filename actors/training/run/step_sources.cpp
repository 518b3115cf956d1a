#include "actors/training/run/step_sources.hpp"

#include <algorithm>
#include <utility>

#include "actors/training/job/train_job.hpp"

namespace pipetrain {
namespace {

// Feeds training steps from one source and the steps of evaluations from another.
class SourceByKind : public InputSource {
 public:
  SourceByKind(std::shared_ptr<InputSource> training, std::shared_ptr<InputSource> evaluation)
      : training_(std::move(training)), evaluation_(std::move(evaluation)) {}

  void fill(schedules::InputKind kind, const StepInfo& step, int microbatch, Slot& slot) override {
    source_of(step).fill(kind, step, microbatch, slot);
  }
  void look_ahead(const StepInfo& filled) override { source_of(filled).look_ahead(filled); }

 private:
  InputSource& source_of(const StepInfo& step) { return step.evaluates() ? *evaluation_ : *training_; }

  std::shared_ptr<InputSource> training_, evaluation_;
};

}  // namespace

StepSources::StepSources(const TrainJob& job, const ParallelLayout& layout, std::shared_ptr<const StepSamples> training,
                         std::shared_ptr<const StepSamples> evaluation)
    : job_(job), layout_(layout), training_(std::move(training)), evaluation_(std::move(evaluation)) {}

std::shared_ptr<InputSource> StepSources::make(int replica, int part) {
  const auto& placement = layout_.plan().placement;
  const auto first = layout_.receivers({replica, placement.at(0).stage, part});
  const auto last = layout_.receivers({replica, placement.at(placement.virtual_stages() - 1).stage, part});
  const auto source = [&](const std::shared_ptr<const StepSamples>& samples) {
    return std::make_shared<TokenSource>(samples, first, last, job_.layout.slices);
  };
  const auto training = source(training_);
  if (part == 0 && !first.empty()) read_[replica] = training;
  if (!evaluation_) return training;
  return std::make_shared<SourceByKind>(training, source(evaluation_));
}

std::optional<double> StepSources::longest_wait(const std::vector<StageTrace>& stages, std::int64_t step,
                                                ReadTimes::Clock::time_point begin) const {
  if (std::ssize(read_) < layout_.mesh().shape().dp) return {};
  const int first_stage = layout_.plan().placement.at(0).stage;
  double longest = 0;
  for (const StageTrace& stage : stages) {
    if (stage.stage.stage != first_stage || stage.stage.part != 0) continue;
    const auto reads = read_.at(stage.stage.replica)->read_times().take(step);
    longest = std::max(longest, input_wait(reads, stage, begin));
  }
  return longest;
}

}  // namespace pipetrain
