#include "apps/train_job.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "actors/training/job_plan.hpp"
#include "apps/named_model.hpp"
#include "apps/resume.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

ModelConfig read_model(const TrainOptions& options) {
  ModelConfig config = named_model(options.model, options.layers);
  if (options.no_dropout) config.dropout = 0;
  if (config.dropout > 0) {
    throw Error(ErrorKind::input, {"model", options.model},
                fmt::format("its config.json asks for dropout of {}, which is not built yet; say --dropout 0 to train without",
                            config.dropout));
  }
  return config;
}

std::shared_ptr<const Dataset> open_data(const TrainOptions& options, const ModelConfig& config) {
  DatasetOptions data;
  data.inputs = options.data;
  data.sequence_length = options.seq_len.value_or(0);
  data.default_sequence_length = config.max_positions;
  data.max_positions = config.max_positions;
  data.vocabulary = config.vocabulary;
  data.shuffle = options.shuffle;
  data.seed = options.seed;
  return open_dataset(data);
}

// What a plan from a file must have for this model and layout.
void check_plan(const TrainOptions& options, const TrainJob& job) {
  try {
    plan_of(job);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}: {}", options.plan_file, error.what()));
  }
}

}  // namespace

TrainJob make_train_job(const TrainOptions& options, std::vector<std::string>& notes) {
  TrainJob job;
  job.config = read_model(options);
  job.dataset = open_data(options, job.config);
  job.shuffle = options.shuffle;
  job.seed = options.seed;
  job.pp = options.pp;
  job.tp = options.tp;
  job.sequence_parallel = options.sequence_parallel;
  job.batch = options.batch;
  job.schedule = options.schedule;
  job.chunks = options.chunks;
  job.plan = options.plan;
  job.order = options.order;
  job.device = options.device;
  job.devices = options.devices;
  job.threads = options.threads;
  job.precision = options.precision;
  job.recompute = options.recompute;
  job.deterministic = options.deterministic;
  job.optimizer.beta1 = static_cast<float>(options.beta1);
  job.optimizer.beta2 = static_cast<float>(options.beta2);
  job.optimizer.eps = static_cast<float>(options.adam_eps);
  job.optimizer.weight_decay = static_cast<float>(options.weight_decay);
  job.clip_norm = options.clip_grad;
  job.stall = std::chrono::seconds(options.stall_timeout);
  job.fault = options.fault;
  if (job.plan) check_plan(options, job);
  const Sampler sampler(job.dataset->size(), job.batch, job.shuffle, job.seed);
  const RunLength length = run_length(options, sampler.steps_per_epoch());
  job.learning_rate = options.learning_rate(length.steps);
  if (options.save) refuse_used_folder(options, job, length);
  set_initial_state(options, notes, job);
  return job;
}

bool RunLength::ends(std::int64_t step, double loss, double first_loss) const {
  return step >= steps || (loss_ratio && step >= least_steps && loss < *loss_ratio * first_loss);
}

RunLength run_length(const TrainOptions& options, std::int64_t steps_per_epoch) {
  constexpr std::int64_t most_epochs = 10;
  if (!options.steps && !options.epochs) {
    if (!options.data.empty() || options.lr == 0) return {steps_per_epoch, 0, {}};
    return {most_epochs * steps_per_epoch, steps_per_epoch, 0.8};
  }
  RunLength length{options.steps.value_or(0), 0, {}};
  if (options.epochs) {
    const std::int64_t steps = *options.epochs * steps_per_epoch;
    length.steps = options.steps ? std::min(length.steps, steps) : steps;
  }
  return length;
}

}  // namespace pipetrain
