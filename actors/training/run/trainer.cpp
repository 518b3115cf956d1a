#include "actors/training/run/trainer.hpp"

#include <algorithm>
#include <future>
#include <utility>

#include "actors/engine/remote/engine_channel.hpp"
#include "actors/ranks/run_processes.hpp"
#include "actors/training/checkpoint/checkpoint_save.hpp"
#include "actors/training/input/step_samples.hpp"
#include "actors/training/job/job_settings.hpp"
#include "actors/training/rank/logical_state.hpp"
#include "actors/training/rank/parallel_layout.hpp"
#include "actors/training/rank/transformer_compute.hpp"
#include "actors/training/run/evaluator.hpp"
#include "actors/training/run/expert_biases.hpp"
#include "actors/training/run/job_memory.hpp"
#include "actors/training/run/preference_passes.hpp"
#include "actors/training/run/step_bubbles.hpp"
#include "actors/training/run/step_sources.hpp"
#include "actors/training/run/step_verdicts.hpp"
#include "data/samples/fingerprint.hpp"
#include "model/optimizer/optimizer.hpp"
#include "model/weights/choice_biases.hpp"
#include "model/weights/peft_folder.hpp"
#include "model/weights/weights.hpp"
#include "schedules/simulate/following_steps.hpp"

namespace pipetrain {

class Trainer::Run {
 public:
  Run(TrainJob job, std::shared_ptr<EngineChannel> channel)
      : job_(std::move(job)),
        channel_(std::move(channel)),
        layout_(job_, channel_),
        samples_(std::make_shared<StepSamples>(job_.dataset, job_.batch, job_.samples.shuffle, job_.samples.seed,
                                               sequence_chunks(job_))),
        verdicts_(layout_, job_),
        biases_(job_),
        steps_done_(job_.steps_done),
        applied_steps_(job_.initial.applied_steps),
        first_loss_(job_.first_loss),
        has_first_loss_(steps_done_ > 0 && (job_.last_loss || job_.first_loss != 0)),  // older checkpoints lack the last loss
        last_loss_(job_.last_loss) {
    if (job_.evaluation) evaluator_.emplace(job_, verdicts_.results());
    if (job_.config.preference)
      preferences_.emplace(job_, verdicts_.results(), samples_, evaluator_ ? evaluator_->samples() : nullptr);
    sources_.emplace(job_, layout_, samples_, evaluator_ ? evaluator_->samples() : nullptr);
    check_memory();
    build_computes();
    PipelineOptions options;
    options.plan = layout_.plan();
    options.order = job_.layout.order;
    options.replayed = job_.layout.replayed;
    options.slot_life = TransformerCompute::slot_life();
    options.needs = layout_.needs();
    if (job_.post_validation) options.begins_before_verdict = stages_that_wait(options.plan, options.needs);
    options.replicas = layout_.mesh().shape().dp;
    options.stall = job_.stall;
    options.recorder = job_.recorder;
    if (channel_) options.processes = processes();
    pipeline_ = std::make_unique<Pipeline>(
        options, [this, next = std::size_t{0}](StageId, const schedules::StageNeeds&) mutable { return computes_[next++]; },
        [this](int replica) { return sources_->make(replica, 0); });
  }

  // Work on one device may still touch another's memory, so everything stops before anything is freed.
  ~Run() {
    pipeline_.reset();
    for (const auto& compute : computes_) compute->wait_until_idle();
  }

  StepReport step(bool another_follows, std::optional<double> learning_rate) {
    const std::int64_t number = steps_done_ + 1;
    const auto start = std::chrono::steady_clock::now();
    StepInfo info = step_info(number, applied_steps_);
    if (preferences_) preferences_->prepare(*pipeline_, info);
    info.learning_rate = learning_rate.value_or(info.learning_rate);
    const auto coming =
        job_.post_validation && another_follows ? std::optional(step_info(number + 1, applied_steps_ + 1)) : std::nullopt;
    StepReport report;
    report.step = number;
    report.learning_rate = info.learning_rate;
    report.tokens = samples_->size(number).counted;
    const auto begin = std::chrono::steady_clock::now();
    auto outcome = pipeline_->step(
        info, [&](const auto& results) { return verdicts_.decide(results, info, report); }, coming);
    for (auto& stage : outcome.devices) {
      for (auto& actions : stage) report.devices.push_back({rank_at(report.devices.size()), std::move(actions)});
    }
    report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    report.trace = std::move(outcome.stages);
    bubbles_.add_to(report, job_.post_validation, coming.has_value());
    report.input_wait = sources_->longest_wait(report.trace, number, begin);
    steps_done_ = number;
    if (!report.skipped) ++applied_steps_;
    if (!report.skipped) biases_.step(report.routed);
    report.applied_steps = applied_steps_;
    if (report.has_loss()) keep_loss(report.loss);
    return report;
  }

  std::optional<Evaluation> evaluate(const std::function<bool()>& stop) {
    auto evaluation = !evaluator_    ? std::nullopt
                      : preferences_ ? evaluator_->run(*pipeline_, *preferences_, stop)
                                     : evaluator_->run(*pipeline_, biases_.content(), stop);
    if (evaluation) evaluation->step = steps_done_;
    return evaluation;
  }

  // Reading offloaded state uses the staging memory of the running step, so that step must be finished.
  bool leave_step() {
    if (job_.offload.optimizer || job_.offload.parameters) return false;
    pipeline_->leave_step();
    return true;
  }

  std::int64_t steps_done() const { return steps_done_; }
  double first_loss() const { return first_loss_; }
  std::optional<double> last_loss() const { return last_loss_; }
  std::int64_t steps_per_epoch() const { return samples_->sampler().steps_per_epoch(); }
  Pipeline& pipeline() { return *pipeline_; }

  std::string carried_by() const { return layout_.transport() ? layout_.transport()->description() : ""; }
  std::vector<DeviceMemory> memory() const {
    std::vector<DeviceMemory> devices;
    for (const MemoryUse& use : pipeline_->memory()) devices.push_back({rank_at(devices.size()), use});
    return devices;
  }

  void save_model(const std::filesystem::path& folder, ModelFolderOptions options) const {
    options.companions.insert(options.companions.begin(), job_.companions.begin(), job_.companions.end());
    options.multimodal = job_.multimodal;
    LogicalState tensors(*pipeline_, layout_, job_);
    const auto fill = [&](std::size_t index, float* out) { tensors.copy(weights_state, index, out); };
    if (job_.config.adapter.exists()) return save_peft_folder(job_.config, folder, job_.model_name, fill, options);
    save_hf_model(job_.config, folder, with_choice_biases(job_.config, biases_.values(), fill), options);
  }

  std::future<void> start_checkpoint(const std::filesystem::path& folder, std::function<void()> check_folder) {
    return pipetrain::start_checkpoint(
        folder, {job_.config, checkpoint_state(), job_.companions, job_.multimodal, job_.model_name, std::move(check_folder)},
        [this](const std::string& where) { return pipeline_->save_state(where); });
  }

 private:
  CheckpointState checkpoint_state() {
    if (!data_) data_ = data_fingerprint(*job_.dataset);
    CheckpointState state;
    state.step = steps_done_;
    state.applied_steps = applied_steps_;
    state.optimizer = job_.optimizer.name;
    state.trained = job_.config.trained;
    state.base = job_.base;
    state.loss_scale = verdicts_.loss_scale_state();
    state.expert_biases = biases_.values();
    state.first_loss = first_loss_;
    state.last_loss = last_loss_;
    state.global_batch = job_.batch.global_batch();
    state.sequence = job_.dataset->sequence_length();
    state.seed = job_.samples.seed;
    state.shuffle = job_.samples.shuffle;
    state.samples = job_.dataset->size();
    state.data = *data_;
    return state;
  }

  // The learning rate's schedule counts the steps that the optimizer applied: a skipped step neither warms up nor
  // decays. `applied`: those before this step. The loss scale and the learning rate of a coming step are not used:
  // backwards and the optimizer wait until the step begins, when the previous verdict is known.
  StepInfo step_info(std::int64_t step, std::int64_t applied) const {
    // Where no label counts, losses and gradients are 0, so any divisor will do.
    const auto tokens = std::max<std::int64_t>(samples_->size(step).counted, 1);
    StepInfo info{step, layout_.plan().microbatches, static_cast<double>(tokens), job_.learning_rate.at(applied + 1),
                  verdicts_.loss_scale()};
    info.content = biases_.content();
    return info;
  }

  void keep_loss(double loss) {
    if (!std::exchange(has_first_loss_, true)) first_loss_ = loss;
    last_loss_ = loss;
  }

  // The machine's memory is shared by all of the run's processes on it.
  void check_memory() {
    const auto devices = estimate_devices(layout_, job_);
    std::size_t other_bytes = 0;
    if (channel_ && job_.devices.kind == DeviceKind::cpu) {
      std::size_t own = 0;
      for (const auto& device : devices) own += device.use.total() + device.use.snapshot;
      other_bytes = host_bytes_of_others(*channel_, own);
    }
    if (const auto shortage = memory_shortage(layout_, job_, devices, other_bytes)) throw Error(*shortage);
  }

  // Builds all at once, because each takes seconds to draw or read its weights.
  void build_computes() {
    std::vector<std::future<std::shared_ptr<TransformerCompute>>> building;
    for (const StageId id : layout_.stages()) {
      auto setups = layout_.rank_setups(job_, id);
      for (RankSetup& setup : setups) {
        setup.training = samples_;
        if (evaluator_) setup.evaluation = evaluator_->samples();
      }
      building.push_back(std::async(std::launch::async, [this, setups = std::move(setups)]() mutable {
        return std::make_shared<TransformerCompute>(std::move(setups), job_.initial);
      }));
    }
    for (auto& one : building) one.wait();
    for (auto& one : building) computes_.push_back(one.get());
  }

  PipelineProcesses processes() {
    PipelineProcesses processes;
    processes.channel = channel_;
    processes.transport = layout_.transport();
    processes.parts = layout_.stage_mesh();
    processes.make_source = [this](int replica, int part) { return sources_->make(replica, part); };
    return processes;
  }

  MeshCoordinate rank_at(std::size_t rank) const { return layout_.mesh().at(static_cast<int>(rank)); }

  TrainJob job_;
  std::shared_ptr<EngineChannel> channel_;  // null: one process
  ParallelLayout layout_;                   // has devices and groups, so it outlives the computes
  std::shared_ptr<const StepSamples> samples_;
  std::vector<std::shared_ptr<TransformerCompute>> computes_;  // replica-major
  std::optional<StepSources> sources_;
  std::unique_ptr<Pipeline> pipeline_;  // declared after the computes, so that its actors end first
  StepVerdicts verdicts_;
  ExpertBiases biases_;
  std::optional<Evaluator> evaluator_;           // where there is evaluation data
  std::optional<PreferencePasses> preferences_;  // where the loss is one of preferences
  std::int64_t steps_done_;
  std::int64_t applied_steps_;  // those of the steps done that the optimizer applied
  StepBubbles bubbles_;
  double first_loss_;
  bool has_first_loss_;  // of this run or of an earlier one that it continues; the first steps may have no loss
  std::optional<double> last_loss_;
  std::optional<std::uint64_t> data_;  // its fingerprint, computed once because it takes time
};

Trainer::Trainer(TrainJob job) {
  if (job.processes && job.processes->control->processes() == 1) job.processes = nullptr;
  if (!job.processes) {
    run_ = std::make_unique<Run>(std::move(job), nullptr);
    return;
  }
  const auto channel = std::make_shared<EngineChannel>(job.processes->control);
  try {
    compare_contents(job_contents(job), *channel);
    run_ = std::make_unique<Run>(std::move(job), channel);
  } catch (...) {
    std::rethrow_exception(channel->fail(std::current_exception()));
  }
}
Trainer::~Trainer() = default;

void Trainer::follow() { run_->pipeline().follow(); }
StepReport Trainer::step(bool another_follows, std::optional<double> learning_rate) {
  return run_->step(another_follows, learning_rate);
}
std::optional<Evaluation> Trainer::evaluate(const std::function<bool()>& stop) { return run_->evaluate(stop); }
std::int64_t Trainer::steps_done() const { return run_->steps_done(); }
std::int64_t Trainer::steps_per_epoch() const { return run_->steps_per_epoch(); }
std::vector<DeviceMemory> Trainer::memory() const { return run_->memory(); }
std::string Trainer::carried_by() const { return run_->carried_by(); }
double Trainer::first_loss() const { return run_->first_loss(); }
std::optional<double> Trainer::last_loss() const { return run_->last_loss(); }
std::future<void> Trainer::start_checkpoint(const std::filesystem::path& folder, std::function<void()> check_folder) {
  return run_->start_checkpoint(folder, std::move(check_folder));
}
void Trainer::save_model(const std::filesystem::path& folder, const ModelFolderOptions& options) const {
  run_->save_model(folder, options);
}
std::vector<std::string> Trainer::waiting() { return run_->pipeline().waiting(); }
void Trainer::finish_step(std::chrono::milliseconds patience) { run_->pipeline().finish_step(patience); }
bool Trainer::leave_step() { return run_->leave_step(); }
void Trainer::abort(std::exception_ptr cause) { run_->pipeline().abort(std::move(cause)); }

}  // namespace pipetrain
