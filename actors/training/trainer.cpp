#include "actors/training/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "actors/training/parallel_layout.hpp"
#include "actors/training/token_source.hpp"
#include "actors/training/transformer_compute.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

double mean_loss(const std::vector<std::shared_ptr<StageResult>>& results, double tokens) {
  double sum = 0;
  for (const auto& result : results) {  // replica-major; only the stage with the head has any, and all its ranks have the same
    for (const double microbatch : static_cast<const TransformerResult&>(*result).ranks.front().loss_sums) sum += microbatch;
  }
  return sum / tokens;
}

// Replicas hold the same gradients after R: the first one's stages tell the norm.
double grad_norm(const std::vector<std::shared_ptr<StageResult>>& results, int stages) {
  std::vector<NormPart> parts;
  for (int stage = 0; stage < stages; ++stage) {
    for (const auto& rank : static_cast<const TransformerResult&>(*results[static_cast<std::size_t>(stage)]).ranks) {
      parts.insert(parts.end(), rank.norm_parts.begin(), rank.norm_parts.end());
    }
  }
  return global_norm(std::move(parts));
}

double bubble_fraction(const std::vector<StageTrace>& stages) {
  using Seconds = std::chrono::duration<double>;
  auto first = std::chrono::steady_clock::time_point::max();
  auto last = std::chrono::steady_clock::time_point::min();
  double busy = 0;
  for (const auto& stage : stages) {
    for (const auto& action : stage.actions) {
      first = std::min(first, action.times.start);
      last = std::max(last, action.times.end);
      busy += Seconds(action.times.end - action.times.start).count();
    }
  }
  const double makespan = Seconds(last - first).count();
  return makespan > 0 ? std::max(0.0, 1 - busy / (static_cast<double>(stages.size()) * makespan)) : 0;
}

void check_finite(double value, const char* what, std::int64_t step) {
  if (std::isfinite(value)) return;
  throw Error(ErrorKind::numeric, "the " + std::string(what) + " of step " + std::to_string(step) + " is " +
                                      (std::isnan(value) ? "NaN" : "infinite") +
                                      "; lower --lr or look at the data of this step");
}

}  // namespace

class Trainer::Run {
 public:
  explicit Run(TrainJob job)
      : job_(std::move(job)),
        layout_(job_),
        sampler_(std::make_shared<Sampler>(job_.dataset->size(), job_.batch, job_.shuffle, job_.seed)) {
    PipelineOptions options;
    options.plan = layout_.plan();
    options.order = job_.order;
    options.slot_life = TransformerCompute::slot_life();
    options.replicas = static_cast<int>(job_.batch.dp);
    options.stall = job_.stall;
    pipeline_ = std::make_unique<Pipeline>(
        options, [this](StageId id, const schedules::StageNeeds& needs) { return make_compute(id, needs); },
        [this](int replica) { return make_source(replica); });
  }

  StepReport step() {
    const std::int64_t number = steps_done_ + 1;
    const auto tokens = job_.batch.global_batch() * job_.dataset->sequence_length();
    const StepInfo info{number, static_cast<int>(job_.batch.microbatches), static_cast<double>(tokens),
                        job_.learning_rate.at(number)};
    StepReport report{number, 0, 0, info.learning_rate, tokens, 0, 0, {}};
    const auto start = std::chrono::steady_clock::now();
    auto outcome = pipeline_->step(info, [&](const auto& results) { return decide(results, info, report); });
    report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    report.bubble = bubble_fraction(outcome.stages);
    report.trace = std::move(outcome.stages);
    steps_done_ = number;
    return report;
  }

  std::int64_t steps_done() const { return steps_done_; }
  std::int64_t steps_per_epoch() const { return sampler_->steps_per_epoch(); }
  Pipeline& pipeline() { return *pipeline_; }

  std::vector<DeviceMemory> memory() const {
    std::vector<DeviceMemory> devices;
    for (const auto& compute : computes_) {
      for (const auto& rank : compute->ranks()) devices.push_back({rank->id(), rank->memory()});
    }
    return devices;
  }

  void save_model(const std::filesystem::path& folder) const {
    const auto tensors = logical_tensors(job_.config);
    const auto slices = find_slices();
    save_hf_model(job_.config, folder, [&](std::size_t index, float* out) {
      for (const auto& slice : slices.at(tensors[index].name)) copy_slice(slice, out);
    });
  }

 private:
  struct Slice {
    RankCompute* rank;
    const Parameter* parameter;
  };

  std::shared_ptr<StageCompute> make_compute(StageId id, const schedules::StageNeeds& needs) {
    auto compute = std::make_shared<TransformerCompute>(layout_.rank_setups(job_, id, needs), *job_.weights);
    computes_.push_back(compute);
    return compute;
  }

  std::shared_ptr<InputSource> make_source(int replica) {
    const auto& placement = layout_.plan().placement;
    return std::make_shared<TokenSource>(replica, job_.dataset, sampler_,
                                         layout_.stage_devices({replica, placement.at(0).stage}),
                                         layout_.stage_devices({replica, placement.at(placement.virtual_stages() - 1).stage}));
  }

  Verdict decide(const std::vector<std::shared_ptr<StageResult>>& results, const StepInfo& info, StepReport& report) const {
    report.loss = mean_loss(results, info.tokens);
    check_finite(report.loss, "loss", info.step);
    report.grad_norm = grad_norm(results, job_.pp);
    check_finite(report.grad_norm, "gradient norm", info.step);
    return {true, clip_factor(report.grad_norm, job_.clip_norm)};
  }

  // Which ranks of the first replica hold what of each logical tensor; replicated ones once.
  std::map<std::string, std::vector<Slice>> find_slices() const {
    std::map<std::string, std::vector<Slice>> slices;
    for (int stage = 0; stage < job_.pp; ++stage) {
      for (const auto& rank : computes_[static_cast<std::size_t>(stage)]->ranks()) {
        for (const auto& parameter : rank->layout().parameters) {
          const bool elsewhere = parameter.tied_copy || (parameter.split_axis < 0 && rank->id().tp_rank > 0);
          if (!elsewhere) slices[parameter.name].push_back({rank.get(), &parameter});
        }
      }
    }
    return slices;
  }

  static void copy_slice(const Slice& slice, float* full) {
    const Parameter& parameter = *slice.parameter;
    if (parameter.split_axis != 1) {
      const auto row = parameter.full.elements() / parameter.full[0];
      return slice.rank->read_weight(parameter, full + parameter.begin * row);
    }
    std::vector<float> part(static_cast<std::size_t>(parameter.local.elements()));
    slice.rank->read_weight(parameter, part.data());
    const auto width = parameter.local[1];
    for (std::int64_t row = 0; row < parameter.local[0]; ++row) {
      std::copy_n(part.data() + row * width, width, full + row * parameter.full[1] + parameter.begin);
    }
  }

  TrainJob job_;
  ParallelLayout layout_;  // devices and groups: outlives the computes
  std::shared_ptr<const Sampler> sampler_;
  std::vector<std::shared_ptr<TransformerCompute>> computes_;  // replica-major
  std::unique_ptr<Pipeline> pipeline_;                         // its actors end first
  std::int64_t steps_done_ = 0;
};

Trainer::Trainer(TrainJob job) : run_(std::make_unique<Run>(std::move(job))) {}
Trainer::~Trainer() = default;

StepReport Trainer::step() { return run_->step(); }
std::int64_t Trainer::steps_done() const { return run_->steps_done(); }
std::int64_t Trainer::steps_per_epoch() const { return run_->steps_per_epoch(); }
std::vector<DeviceMemory> Trainer::memory() const { return run_->memory(); }
void Trainer::save_model(const std::filesystem::path& folder) const { run_->save_model(folder); }
std::vector<std::string> Trainer::waiting() { return run_->pipeline().waiting(); }
void Trainer::abort(std::exception_ptr cause) { run_->pipeline().abort(std::move(cause)); }

}  // namespace pipetrain
