#include "apps/train_job.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "actors/training/checkpoint.hpp"
#include "actors/training/job_plan.hpp"
#include "apps/named_model.hpp"
#include "core/error.hpp"
#include "data/fingerprint.hpp"

namespace pipetrain {
namespace {

ModelConfig read_model(const TrainOptions& options) {
  ModelConfig config = named_model(options.model, options.layers);
  if (options.no_dropout) config.dropout = 0;
  if (config.dropout > 0) {
    throw Error(ErrorKind::input, fmt::format("--model {}: its config.json asks for dropout of {}, which is not built yet; say "
                                              "--dropout 0 to train without",
                                              options.model, config.dropout));
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

// Checkpoints of two runs in one folder would be mixed up: the older run's be taken for this one's. Going on from the newest
// one is going on with that run, whichever option names it.
void refuse_other_run(const TrainOptions& options) {
  const auto found = find_checkpoints(*options.save);
  std::error_code ignored;
  if (options.resume || found.empty() || (options.load && std::filesystem::equivalent(*options.load, found.back(), ignored)))
    return;
  throw Error(ErrorKind::input,
              fmt::format("--save {}: holds checkpoints of another run, the newest {}; go on from it with --resume, or give "
                          "another folder",
                          options.save->string(), found.back().filename().string()));
}

// The checkpoint that this run goes on from, if any: the newest complete one on --resume.
std::optional<std::filesystem::path> starting_checkpoint(const TrainOptions& options, std::vector<std::string>& notes) {
  if (options.load) return options.load;
  if (!options.resume) return {};
  auto found = find_checkpoints(*options.save);
  for (; !found.empty(); found.pop_back()) {
    const auto fault = checkpoint_fault(found.back());
    if (!fault) return found.back();
    notes.push_back(fmt::format("{} is passed over: {}", found.back().filename().string(), *fault));
  }
  return {};
}

// The next samples follow from these: another run with other settings would repeat some and leave out others.
void check_same_data(const CheckpointState& state, const TrainJob& job, const std::filesystem::path& checkpoint) {
  const auto refuse = [&](const std::string& what) {
    throw Error(
        ErrorKind::input,
        fmt::format("{}: was made with {}; give the same, so that the data goes on where it stopped, or begin a new run "
                    "from its weights alone: --model {}",
                    checkpoint.string(), what, checkpoint.string()));
  };
  const auto check = [&](auto made_with, auto given, const char* option) {
    if (made_with != given) refuse(fmt::format("{} {}, this run has {}", option, made_with, given));
  };
  const auto on_off = [](bool value) { return std::string(value ? "on" : "off"); };
  check(state.global_batch, job.batch.global_batch(), "--global-batch");
  check(state.sequence, job.dataset->sequence_length(), "--seq-len");
  check(state.seed, job.seed, "--seed");
  check(on_off(state.shuffle), on_off(job.shuffle), "--shuffle");
  if (state.data != data_fingerprint(*job.dataset))
    refuse(fmt::format("other --data, of {} samples, this run has {}", state.samples, job.dataset->size()));
}

// What a plan from a file must have for this model and layout.
void check_plan(const TrainOptions& options, const TrainJob& job) {
  try {
    plan_of(job);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}: {}", options.plan_file, error.what()));
  }
}

void set_initial_state(const TrainOptions& options, std::vector<std::string>& notes, TrainJob& job) {
  if (const auto checkpoint = starting_checkpoint(options, notes)) {
    Checkpoint opened = open_checkpoint(*checkpoint, job.config);
    check_same_data(opened.state, job, *checkpoint);
    job.initial = std::move(opened.initial);
    job.steps_done = opened.state.step;
    job.first_loss = opened.state.first_loss;
  } else if (options.load_weights) {
    job.initial.weights = hf_weights(job.config, options.model);
  } else {
    job.initial.weights = random_weights(job.config, options.seed);
  }
}

}  // namespace

TrainJob make_train_job(const TrainOptions& options, std::vector<std::string>& notes) {
  if (options.save) refuse_other_run(options);
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
  job.adamw.beta1 = static_cast<float>(options.beta1);
  job.adamw.beta2 = static_cast<float>(options.beta2);
  job.adamw.eps = static_cast<float>(options.adam_eps);
  job.adamw.weight_decay = static_cast<float>(options.weight_decay);
  job.clip_norm = options.clip_grad;
  job.stall = std::chrono::seconds(options.stall_timeout);
  job.fault = options.fault;
  if (job.plan) check_plan(options, job);
  set_initial_state(options, notes, job);
  const Sampler sampler(job.dataset->size(), job.batch, job.shuffle, job.seed);
  job.learning_rate = options.learning_rate(run_length(options, sampler.steps_per_epoch()).steps);
  return job;
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
