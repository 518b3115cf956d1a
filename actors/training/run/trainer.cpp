#include "actors/training/run/trainer.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <type_traits>
#include <utility>

#include "actors/engine/failure.hpp"
#include "actors/engine/run_failed.hpp"
#include "actors/training/checkpoint/checkpoint_save.hpp"
#include "actors/training/checkpoint/choice_biases.hpp"
#include "actors/training/checkpoint/kept_states.hpp"
#include "actors/training/copies/copy_request.hpp"
#include "actors/training/input/step_samples.hpp"
#include "actors/training/rank/logical_state.hpp"
#include "actors/training/run/evaluator.hpp"
#include "actors/training/run/expert_biases.hpp"
#include "actors/training/run/memberships.hpp"
#include "actors/training/run/preference_passes.hpp"
#include "actors/training/run/run_progress.hpp"
#include "actors/training/run/step_bubbles.hpp"
#include "actors/training/run/step_verdicts.hpp"
#include "core/error.hpp"
#include "data/samples/fingerprint.hpp"
#include "model/optimizer/optimizer.hpp"
#include "model/weights/peft_folder.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {

class Trainer::Run {
 public:
  explicit Run(TrainJob job)
      : job_(std::move(job)),
        samples_(std::make_shared<StepSamples>(job_.dataset, job_.batch, job_.samples.shuffle, job_.samples.seed,
                                               sequence_chunks(job_))),
        evaluation_(evaluation_samples(job_)),
        memberships_(job_, samples_, evaluation_),
        verdicts_(layout(), job_),
        biases_(job_),
        progress_(job_) {
    if (job_.kept) job_.initial.forget_sources();
    if (evaluation_) evaluator_.emplace(job_, evaluation_, verdicts_.results());
    if (job_.config.preference) preferences_.emplace(job_, verdicts_.results(), samples_, evaluation_);
  }

  StepReport step(bool another_follows, std::optional<double> learning_rate) {
    StepReport report = with_takeovers([&] { return run_step(another_follows, learning_rate); });
    report.takeovers = memberships_.take_takeovers();
    if (job_.kept) job_.kept->forget();
    return report;
  }

  bool follow() {
    with_takeovers([this] {
      if (!memberships_.leads()) pipeline().follow();
    });
    return memberships_.leads();
  }

  void renew() {
    if (!job_.keeps_copies || job_.processes) throw Error(ErrorKind::internal, "this run keeps no copies of its state");
    take_over("its trainer was renewed");
  }

  void copy_states() {
    with_takeovers([&] {
      const CopyRequest request{progress_.now().steps, std::make_shared<const Bytes>(progress_.record())};
      pipeline().save_state(to_target(request)).get();
    });
  }

  // A failed pipeline answers no question.
  std::vector<Takeover> take_over_from(int process) {
    with_takeovers([&, membership = memberships_.number()] {
      if (memberships_.number() != membership) return;
      memberships_.wait_until_lost(process);
      pipeline().memory();
    });
    return memberships_.takeovers();
  }

  int newcomers() { return memberships_.newcomers(); }

  // A failed pipeline answers no question.
  std::vector<Takeover> admit() {
    with_takeovers([&, membership = memberships_.number()] {
      if (memberships_.number() != membership) return;
      memberships_.admit();
      pipeline().abort(std::make_exception_ptr(MembershipEnds("processes join the run")));
      pipeline().memory();
    });
    return memberships_.takeovers();
  }

  StepReport run_step(bool another_follows, std::optional<double> learning_rate) {
    const RunProgress::Counts done = progress_.now();
    const std::int64_t number = done.steps + 1;
    const auto start = std::chrono::steady_clock::now();
    StepInfo info = step_info(number, done.applied_steps);
    if (preferences_) preferences_->prepare(pipeline(), info);
    info.learning_rate = learning_rate.value_or(info.learning_rate);
    if (job_.elastic == Elastic::takeover) info.progress = std::make_shared<const Bytes>(progress_.record());
    const auto coming =
        job_.post_validation && another_follows ? std::optional(step_info(number + 1, done.applied_steps + 1)) : std::nullopt;
    StepReport report;
    report.step = number;
    report.membership = memberships_.number();
    report.relayouts = job_.relayouts;
    report.learning_rate = info.learning_rate;
    report.frozen_after = info.frozen_after;
    report.tokens = samples_->size(number).counted;
    const auto begin = std::chrono::steady_clock::now();
    auto outcome = pipeline().step(
        info, [&](const auto& results) { return verdicts_.decide(results, info, done.applied_steps, report); }, coming);
    for (auto& stage : outcome.devices) {
      for (auto& actions : stage) report.devices.push_back({rank_at(report.devices.size()), std::move(actions)});
    }
    report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    report.trace = std::move(outcome.stages);
    bubbles_.add_to(report, job_.post_validation, coming.has_value());
    report.input_wait = memberships_.current().sources().longest_wait(report.trace, number, begin);
    if (!report.skipped) biases_.step(report.routed);
    progress_.add(report, {verdicts_.loss_scale_state(), verdicts_.variance_state(), biases_.values()});
    report.applied_steps = progress_.now().applied_steps;
    return report;
  }

  int membership() const { return memberships_.number(); }

  bool recover(const RunFailed& failure, int membership) {
    if (membership < memberships_.number()) return failure.process_lost();
    if (!memberships_.may_renew(failure)) return false;
    with_takeovers([] {}, failure);
    return true;
  }

  std::optional<Evaluation> evaluate(const std::function<bool()>& stop) {
    if (!evaluator_) return std::nullopt;
    auto evaluation = with_takeovers([&] {
      return preferences_ ? evaluator_->run(pipeline(), *preferences_, stop)
                          : evaluator_->run(pipeline(), biases_.content(), stop);
    });
    if (evaluation) evaluation->step = progress_.now().steps;
    return evaluation;
  }

  // Reading offloaded state uses the staging memory of the running step, so that step must be finished.
  bool leave_step() {
    if (job_.offload.optimizer || job_.offload.parameters) return false;
    bool left = false;
    memberships_.with_pipeline([&](Pipeline& pipeline) {
      pipeline.leave_step();
      left = true;
    });
    return left;
  }

  const RunProgress::Counts& progress() const { return progress_.now(); }
  std::int64_t steps_per_epoch() const { return samples_->sampler().steps_per_epoch(); }
  void with_pipeline(const std::function<void(Pipeline&)>& work) const { memberships_.with_pipeline(work); }
  Pipeline& pipeline() const { return memberships_.current().pipeline(); }

  std::string carried_by() const { return layout().transport() ? layout().transport()->description() : ""; }
  std::vector<DeviceMemory> memory() const {
    std::vector<DeviceMemory> devices;
    for (const MemoryUse& use : pipeline().memory()) devices.push_back({rank_at(devices.size()), use});
    return devices;
  }

  void save_model(const std::filesystem::path& folder, ModelFolderOptions options) {
    options.companions.insert(options.companions.begin(), job_.companions.begin(), job_.companions.end());
    options.multimodal = job_.multimodal;
    with_takeovers([&] {
      LogicalState tensors(pipeline(), layout(), job_);
      const auto fill = [&](std::size_t index, float* out) { tensors.copy(weights_state, index, out); };
      if (job_.config.adapter.exists()) return save_peft_folder(job_.config, folder, job_.model_name, fill, options);
      save_hf_model(job_.config, folder, with_choice_biases(job_.config, biases_.values(), fill), options);
    });
  }

  std::future<void> start_checkpoint(const std::filesystem::path& folder, std::function<void()> check_folder) {
    if (!data_) data_ = data_fingerprint(*job_.dataset);
    CheckpointContents saved = contents();
    saved.state.data = *data_;
    saved.check_folder = std::move(check_folder);
    return pipetrain::start_checkpoint(folder, saved,
                                       [this](const std::string& where) { return pipeline().save_state(where); });
  }

  bool keeps_states() const { return job_.kept != nullptr; }
  void keep_states() {
    pipeline().save_state(KeptStates::target()).get();
    job_.kept->hold({contents(), job_.dataset, job_.evaluation});
  }

 private:
  // Does the work, again after each takeover. failure: one that a takeover must follow first.
  template <class Work>
  std::invoke_result_t<Work> with_takeovers(const Work& work, std::optional<RunFailed> failure = {}) {
    for (;;) {
      try {
        if (failure) take_over(failure->what());
        return work();
      } catch (const RunFailed& failed) {
        if (!memberships_.may_renew(failed)) throw;
        failure = failed;
      }
    }
  }

  // Begins a membership from the copies of states. Process 0 goes back to their step, and repeats those that had been done
  // since then. A process that is process 0 for the first time continues from the progress of the one before it, which had
  // reported all steps up to that one.
  void take_over(const std::string& cause) {
    const bool led = memberships_.leads();
    if (!led) memberships_.take_takeovers();  // process 0 has reported them
    done_ = std::max(done_, progress_.now().steps);
    const std::int64_t step = memberships_.renew(cause).step;
    bubbles_ = {};
    if (!memberships_.leads()) return;
    if (!led && !memberships_.record().empty()) progress_ = RunProgress(memberships_.record());
    if (progress_.now().steps < step)
      throw Error(ErrorKind::internal,
                  "no process has the record of step " + std::to_string(step) + ", so none can lead the run");
    for (const RunProgress::Counts& gone : progress_.go_back(step)) repeated_rates_[gone.steps] = gone.learning_rate;
    verdicts_.restore(progress_.now().coming.loss_scale, progress_.now().coming.variance);
    biases_.restore(progress_.now().coming.expert_biases);
    while (progress_.now().steps < done_) run_step(false, repeated_rates_.at(progress_.now().steps + 1));
    repeated_rates_.clear();
  }

  // Without the fingerprint of the data.
  CheckpointContents contents() const {
    const RunProgress::Counts& done = progress_.now();
    CheckpointContents contents = contents_of(job_);
    contents.state.step = done.steps;
    contents.state.applied_steps = done.applied_steps;
    contents.state.loss_scale = verdicts_.loss_scale_state();
    contents.state.variance = verdicts_.variance_state();
    contents.state.expert_biases = biases_.values();
    std::tie(contents.state.first_loss, contents.state.last_loss) = std::tie(done.first_loss, done.last_loss);
    return contents;
  }

  // The learning rate's schedule counts the steps that the optimizer applied: a skipped step neither warms up nor
  // decays. `applied`: those before this step. The factors of gradients and the learning rate of a coming step are not used:
  // backwards and the optimizer wait until the step begins, when the previous verdict is known.
  StepInfo step_info(std::int64_t step, std::int64_t applied) const {
    // Where no label counts, losses and gradients are 0, so any divisor will do.
    const auto tokens = std::max<std::int64_t>(samples_->size(step).counted, 1);
    StepInfo info{.step = step,
                  .microbatches = layout().plan().microbatches,
                  .tokens = static_cast<double>(tokens),
                  .learning_rate = job_.learning_rate.at(applied + 1),
                  .loss_scale = verdicts_.loss_scale(),
                  .sequences = static_cast<double>(samples_->sequences(step))};
    info.content = biases_.content();
    verdicts_.set_variance(info);
    return info;
  }

  const ParallelLayout& layout() const { return memberships_.current().layout(); }
  MeshCoordinate rank_at(std::size_t rank) const { return layout().mesh().at(static_cast<int>(rank)); }

  TrainJob job_;
  std::shared_ptr<const StepSamples> samples_;
  std::shared_ptr<const StepSamples> evaluation_;  // null: nothing is evaluated
  Memberships memberships_;
  StepVerdicts verdicts_;
  ExpertBiases biases_;
  std::optional<Evaluator> evaluator_;           // where there is evaluation data
  std::optional<PreferencePasses> preferences_;  // where the loss is one of preferences
  RunProgress progress_;
  std::int64_t done_ = 0;                          // steps that were done when a process was lost
  std::map<std::int64_t, double> repeated_rates_;  // learning rates of the steps that a takeover repeats
  StepBubbles bubbles_;
  std::optional<std::uint64_t> data_;  // its fingerprint, computed once because it takes time
};

Trainer::Trainer(TrainJob job) : run_(std::make_unique<Run>(std::move(job))) {}
Trainer::~Trainer() = default;

bool Trainer::follow() { return run_->follow(); }
StepReport Trainer::step(bool another_follows, std::optional<double> learning_rate) {
  return run_->step(another_follows, learning_rate);
}
void Trainer::renew() { run_->renew(); }
void Trainer::copy_states() { run_->copy_states(); }
std::vector<Takeover> Trainer::take_over_from(int process) { return run_->take_over_from(process); }
int Trainer::newcomers() { return run_->newcomers(); }
std::vector<Takeover> Trainer::admit() { return run_->admit(); }
int Trainer::membership() const { return run_->membership(); }
bool Trainer::recover(const RunFailed& failure, int membership) { return run_->recover(failure, membership); }
std::optional<Evaluation> Trainer::evaluate(const std::function<bool()>& stop) { return run_->evaluate(stop); }
std::int64_t Trainer::steps_done() const { return run_->progress().steps; }
std::int64_t Trainer::steps_per_epoch() const { return run_->steps_per_epoch(); }
std::vector<DeviceMemory> Trainer::memory() const { return run_->memory(); }
std::string Trainer::carried_by() const { return run_->carried_by(); }
double Trainer::first_loss() const { return run_->progress().first_loss; }
std::optional<double> Trainer::last_loss() const { return run_->progress().last_loss; }
std::future<void> Trainer::start_checkpoint(const std::filesystem::path& folder, std::function<void()> check_folder) {
  return run_->start_checkpoint(folder, std::move(check_folder));
}
void Trainer::save_model(const std::filesystem::path& folder, const ModelFolderOptions& options) {
  run_->save_model(folder, options);
}
bool Trainer::keeps_states() const { return run_->keeps_states(); }
void Trainer::keep_states() { run_->keep_states(); }
std::vector<std::string> Trainer::waiting() {
  std::vector<std::string> lines;
  run_->with_pipeline([&](Pipeline& pipeline) { lines = pipeline.waiting(); });
  return lines;
}
void Trainer::finish_step(std::chrono::milliseconds patience) {
  run_->with_pipeline([&](Pipeline& pipeline) { pipeline.finish_step(patience); });
}
bool Trainer::leave_step() { return run_->leave_step(); }
void Trainer::abort(std::exception_ptr cause) {
  run_->with_pipeline([&](Pipeline& pipeline) { pipeline.abort(cause); });
}

}  // namespace pipetrain
