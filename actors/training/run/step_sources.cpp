#include "actors/training/run/step_sources.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "actors/training/input/preference_pass.hpp"
#include "actors/training/job/train_job.hpp"

namespace pipetrain {
namespace {

// Feeds each step from a source of its own samples: training, evaluation, and the passes of preferences.
class SourceByStep : public InputSource {
 public:
  using MakeSource = std::function<std::shared_ptr<InputSource>(const std::shared_ptr<const StepSamples>&)>;

  SourceByStep(std::shared_ptr<InputSource> training, std::shared_ptr<const StepSamples> training_samples,
               std::shared_ptr<const StepSamples> evaluation_samples, bool prefers, MakeSource make)
      : training_(std::move(training)),
        training_samples_(std::move(training_samples)),
        evaluation_samples_(std::move(evaluation_samples)),
        prefers_(prefers),
        make_(std::move(make)) {}

  void fill(schedules::InputKind kind, const StepInfo& step, int microbatch, Slot& slot) override {
    source_of(step).fill(kind, step, microbatch, slot);
  }
  void look_ahead(const StepInfo& filled) override { source_of(filled).look_ahead(filled); }

 private:
  // Sources are made when a step first needs them. Reference passes read the same samples as the steps that follow.
  InputSource& source_of(const StepInfo& step) {
    const PreferencePass pass = prefers_ ? preference_pass_of(step) : PreferencePass{};
    const bool trains = !step.evaluates() || pass.on_training_data;
    if (trains && !pass.mismatched && !pass.in_order) return *training_;
    auto& source = others_[{trains, pass.mismatched}];
    if (!source) source = make_(prefers_ ? samples_of(step, training_samples_, evaluation_samples_) : evaluation_samples_);
    return *source;
  }

  std::shared_ptr<InputSource> training_;
  std::shared_ptr<const StepSamples> training_samples_, evaluation_samples_;
  bool prefers_;  // the loss is one of preferences
  MakeSource make_;
  std::map<std::pair<bool, bool>, std::shared_ptr<InputSource>> others_;  // by training data or not, and mismatched or not
};

}  // namespace

StepSources::StepSources(const TrainJob& job, const ParallelLayout& layout, std::shared_ptr<const StepSamples> training,
                         std::shared_ptr<const StepSamples> evaluation)
    : job_(job), layout_(layout), training_(std::move(training)), evaluation_(std::move(evaluation)) {}

std::shared_ptr<InputSource> StepSources::make(int replica, int part) {
  const auto& placement = layout_.plan().placement;
  const auto first = layout_.receivers({replica, placement.at(0).stage, part});
  const auto last = layout_.receivers({replica, placement.at(placement.virtual_stages() - 1).stage, part});
  const bool further = job_.config.mtp.is_trained();
  const auto source = [=, slices = job_.layout.slices](const std::shared_ptr<const StepSamples>& samples) {
    return std::make_shared<TokenSource>(samples, first, last, slices, further);
  };
  const auto training = source(training_);
  if (part == 0 && !first.empty()) read_[replica] = training;
  if (!evaluation_ && !job_.config.preference) return training;
  return std::make_shared<SourceByStep>(training, training_, evaluation_, job_.config.preference.has_value(), source);
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
