#include "actors/training/run/make_train_job.hpp"

#include <fmt/format.h>

#include <cassert>
#include <utility>

#include "actors/training/checkpoint/checkpoint.hpp"
#include "actors/training/checkpoint/open_reference.hpp"
#include "actors/training/checkpoint/resume.hpp"
#include "actors/training/job/adapter_settings.hpp"
#include "actors/training/job/attention_settings.hpp"
#include "actors/training/job/combinations.hpp"
#include "actors/training/job/further_settings.hpp"
#include "actors/training/job/job_plan.hpp"
#include "actors/training/job/offload_check.hpp"
#include "actors/training/job/run_length.hpp"
#include "actors/training/places/gradient_pool.hpp"
#include "actors/training/places/state_places.hpp"
#include "actors/training/run/base_form.hpp"
#include "core/counted.hpp"
#include "core/error.hpp"
#include "data/samples/split.hpp"
#include "data/tokenizers/folder_tokenizer.hpp"
#include "model/named_model.hpp"
#include "model/parameters/parameter_groups.hpp"
#include "model/weights/companion_files.hpp"
#include "model/weights/multimodal_parts.hpp"
#include "model/weights/stored_model.hpp"

namespace pipetrain {
namespace {

void set_router(const ModelSettings& model, ModelConfig& config) {
  const auto refuse_without_experts = [&](const char* setting, const std::string& value) {
    if (config.routed_layers() > 0) return;
    throw Error(ErrorKind::input, {setting, value},
                fmt::format("the model {} has no routed experts; leave it out", model.name));
  };
  if (model.balance_loss) refuse_without_experts("moe-aux-loss", fmt::format("{}", *model.balance_loss));
  if (model.balance_by_layer) refuse_without_experts("moe-aux-scope", *model.balance_by_layer ? "layer" : "model");
  if (model.z_loss) refuse_without_experts("moe-z-loss", fmt::format("{}", *model.z_loss));
  if (model.router_rules.capacity > 0) refuse_without_experts("moe-capacity", fmt::format("{}", model.router_rules.capacity));
  if (model.router_rules.bias_rate > 0)
    refuse_without_experts("moe-bias-rate", fmt::format("{}", model.router_rules.bias_rate));
  config.router_rules = model.router_rules;
  RouterLossSettings& losses = config.router_losses;
  losses.balance = model.balance_loss.value_or(losses.balance);
  losses.by_layer = model.balance_by_layer.value_or(losses.by_layer);
  losses.z = model.z_loss.value_or(losses.z);
}

ModelConfig read_model(const ModelSettings& model, std::vector<std::string>& notes) {
  ModelConfig config = named_model(model.name, model.layers);
  if (model.labels && config.classifies() && *model.labels != config.outputs())
    throw Error(ErrorKind::input, {"num-labels", fmt::format("{}", *model.labels)},
                fmt::format("the model {} has {} classes; leave it out", model.name, config.outputs()));
  const bool has_new_head = model.labels && !config.classifies();
  if (has_new_head) config = with_new_head(std::move(config), *model.labels);
  if (model.dropout) set_dropout(config, *model.dropout);
  if (model.layers && model.load_weights) config.mtp.layers = 0;  // it was trained behind all the layers
  set_further_prediction(model.name, model.mtp_loss, config);
  set_router(model, config);
  set_attention(model.attention, config);
  if (model.load_weights) config = with_head_of_weights(std::move(config), model.name, notes);
  config.trained = model.trained;
  set_adapter(model.adapter, config);
  if (config.adapter.exists() && has_new_head && !config.trained.head)
    throw Error(ErrorKind::input, {"num-labels", fmt::format("{}", config.outputs())},
                "the head for the classes is new, and adapters leave it as it is; train it too, with train-head");
  check_trained_parts(config.trained, config.tied_embeddings, config.adapter.exists());
  return config;
}

std::optional<PreferenceReading> preference_reading(const std::optional<PreferenceFormula>& formula) {
  if (!formula) return std::nullopt;
  return PreferenceReading{formula->has_pairs() ? PreferenceForm::pairs : PreferenceForm::labelled,
                           formula->loss == PreferenceLoss::orpo};
}

// Returns the parts that the saved model is added to.
std::shared_ptr<const MultimodalParts> parts_beside(const ModelSettings& model, const ModelConfig& config) {
  auto parts = multimodal_parts(model.name);
  if (parts && !parts->is_multimodal()) {
    const bool keeps = !config.mtp.is_trained() && config.mtp.layers > 0 && !config.classifies() && !config.adapter.exists();
    return keeps ? parts : nullptr;
  }
  if (parts && config.classifies())
    throw Error(ErrorKind::input, {"model", model.name},
                "is multimodal, and classes are not built for such a model; give a folder of its language model alone");
  if (parts && config.adapter.exists())
    throw Error(ErrorKind::input, {"model", model.name},
                "is multimodal, and adapters are not built for such a model; give a folder of its language model alone");
  return parts;
}

DatasetOptions data_options(const RunSettings& settings, const ModelConfig& config, std::vector<std::string>& notes) {
  DatasetOptions data;
  static_cast<DataSettings&>(data) = settings.data;
  if (data.tokenizer.empty() && !data.inputs.empty())
    data.tokenizer = tokenizer_in_folder(settings.model.name, config.vocabulary, notes);
  data.default_sequence_length = config.max_positions;
  data.max_positions = config.max_positions;
  data.vocabulary = config.vocabulary;
  data.shuffle = settings.samples.shuffle;
  data.seed = settings.samples.seed;
  data.classes = config.classifies() ? config.outputs() : 0;
  data.preferences = preference_reading(config.preference);
  return data;
}

// Takes the data that the caller has opened.
void take_data([[maybe_unused]] const RunSettings& settings, std::shared_ptr<const Dataset> dataset, TrainJob& job) {
  assert(!settings.samples.shuffle && !settings.evaluation.split);
  const std::int64_t length = dataset->sequence_length(), most = job.config.max_positions;
  if (length < 1 || (most > 0 && length > most))
    throw Error(ErrorKind::input, {"seq-len", std::to_string(length)},
                fmt::format("must be from 1 to {}, the positions of the model", most));
  job.dataset = std::move(dataset);
}

// Evaluation data has the sequence length of training.
void open_data(const RunSettings& settings, std::vector<std::string>& notes, TrainJob& job) {
  DatasetOptions data = data_options(settings, job.config, notes);
  data.notes = &notes;
  job.dataset = open_dataset(data);
  if (settings.evaluation.split) {
    DataSplit split = split_dataset(std::move(job.dataset), *settings.evaluation.split, settings.samples.seed);
    job.dataset = std::move(split.training);
    job.evaluation = std::move(split.evaluation);
  } else if (settings.evaluation.wanted()) {
    data.inputs = settings.evaluation.inputs;
    data.sequence_length = job.dataset->sequence_length();
    data.setting = "eval-data";
    job.evaluation = open_dataset(data);
  }
}

// Throws where a given plan does not suit this model and layout.
void keep_plan(TrainJob& job) {
  try {
    job.plan = build_plan(job);
  } catch (const Error& error) {
    if (job.layout.plan_file.empty()) throw;
    throw Error(error.kind(), fmt::format("{}: {}", job.layout.plan_file, error.what()));
  }
}

// Tells whether some stage's gradients take turns in the same memory, as those do that replicas divide during the step.
bool shares_gradient_memory(const TrainJob& job) {
  const auto& placement = job.plan->placement;
  const auto parts = parts_of(job, placement);
  const MeshShape shape = job.mesh_shape();
  for (int stage = 0; stage < placement.stages(); ++stage) {
    std::vector<std::vector<Block>> chunks;
    for (int chunk = 0; chunk < placement.chunks(); ++chunk)
      chunks.push_back(parts[static_cast<std::size_t>(placement.virtual_stage(stage, chunk))]);
    const auto& actions = job.plan->stages[static_cast<std::size_t>(stage)];
    for (const GroupLayout& group : group_layouts(layout_parameters(job.config, chunks, 0, shape.tp, {0, shape.ep}))) {
      if (!is_trained(group.group)) continue;
      const int replicas = group.group == ParameterGroup::expert ? expert_copies(shape) : weight_copies(shape);
      const auto units = place_among(job.zero, job.optimizer, replicas, 0).units(group.layout);
      if (!pool_gradients(group.layout, units, replicas, actions).is_empty()) return true;
    }
  }
  return false;
}

// Returns a note where dividing gradients (zero 2 and 3) saves nothing, because in the job's plan all of them live to the end
// of the step.
std::optional<std::string> undivided_gradients_note(const TrainJob& job) {
  if (!job.zero.divides_grads() || job.batch.dp * job.layout.cp == 1) return {};
  if (job.layout.order == schedules::Order::planned && shares_gradient_memory(job)) return {};
  return fmt::format(
      "with {} a step in schedule {}, every replica's gradients live to the end of the step: dividing them saves "
      "no memory here; it does with one microbatch, or in looped-bfs (docs/memory.md)",
      counted(job.batch.microbatches, "microbatch", "es"), job.layout.schedule);
}

// The warm-up may take the whole run: the peak and the decay after it are then never reached.
std::optional<std::string> warmup_note(const LearningRate& rate) {
  if (rate.warmup_steps == 0 || rate.warmup_steps < rate.total_steps) return std::nullopt;
  return fmt::format(
      "the warm-up of {} does not end within the {} of the run: the learning rate stays below its peak; shorten the "
      "warm-up, or train longer",
      counted(rate.warmup_steps, "step"), rate.total_steps);
}

// take: sets the job's data.
template <class TakeData>
TrainJob make_job(const RunSettings& settings, std::vector<std::string>& notes, std::shared_ptr<KeptStates> kept,
                  const TakeData& take) {
  TrainJob job;
  job.kept = std::move(kept);
  job.config = read_model(settings.model, notes);
  set_base_form(settings.model, settings.numerics.precision.compute, job.config);
  job.config.preference = settings.preference.formula();
  job.model_name = settings.model.load_weights ? settings.model.name : "";
  job.multimodal = parts_beside(settings.model, job.config);
  if (!job.config.mtp.is_trained()) job.config.mtp = {};  // so that checkpoints and profiles say what the run has
  take(job);
  static_cast<JobSettings&>(job) = settings;
  job.preference.reference_model = reference_model(settings);
  job.batch.microbatch *= job.dataset->samples_per_row();
  check_combinations(features_of(job));
  check_offload(job);
  job.companions = companion_files(settings.model.name, settings.data.tokenizer);
  job.saves = settings.saving.folder.has_value();
  keep_plan(job);
  if (!job.layout.cut.empty()) cut_blocks(job.config, job.layout.cut, job.plan->placement.virtual_stages());  // throws
  if (const auto note = undivided_gradients_note(job)) notes.push_back(*note);
  const Sampler sampler(job.dataset->size(), job.batch, job.samples.shuffle, job.samples.seed, job.dataset->samples_per_row());
  const RunLength length = run_length(settings, sampler.steps_per_epoch());
  job.learning_rate = settings.learning_rate.over(length.steps);
  if (auto note = warmup_note(job.learning_rate)) notes.push_back(std::move(*note));
  if (job.config.router_rules.bias_rate > 0 && settings.saving.folder)
    notes.push_back("the model folder has no place for the biases of experts, so the saved model routes without them");
  if (settings.saving.folder) refuse_used_folder(settings.saving, job, length);
  set_initial_state(settings, notes, job);
  if (job.config.preference && job.config.preference->has_reference()) job.initial.reference = open_reference(settings, job);
  return job;
}

}  // namespace

TrainJob make_train_job(const RunSettings& settings, std::vector<std::string>& notes, std::shared_ptr<const Dataset> dataset) {
  return make_job(settings, notes, nullptr, [&](TrainJob& job) {
    dataset ? take_data(settings, std::move(dataset), job) : open_data(settings, notes, job);
  });
}

TrainJob make_train_job(const RunSettings& settings, std::vector<std::string>& notes, const RunBefore& before) {
  return make_job(settings, notes, before.kept, [&](TrainJob& job) {
    if (!before.data) return open_data(settings, notes, job);
    job.dataset = before.data;
    job.evaluation = before.evaluation;
  });
}

}  // namespace pipetrain
