#include "actors/training/job/job_settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>

#include "actors/training/job/train_job.hpp"
#include "data/samples/fingerprint.hpp"
#include "model/config/mode_names.hpp"
#include "model/weights/weights.hpp"
#include "schedules/plan/plan_text.hpp"
#include "schedules/record/recorded_order.hpp"

namespace pipetrain {
namespace {

// Writes floats as their shortest text that reads back as the same number.
template <class Value>
std::string text(const Value& value) {
  return fmt::format("{}", value);
}
std::string text(bool value) { return value ? "on" : "off"; }
template <class Value>
std::string text(const std::optional<Value>& value) {
  return value ? text(*value) : "";
}

const char* text(LearningRate::Kind kind) {
  constexpr const char* names[] = {"constant", "linear", "cosine"};
  return names[static_cast<int>(kind)];
}

void add_layout(const RunSettings& settings, NamedValues& values) {
  const LayoutSettings& layout = settings.layout;
  values.emplace_back("pp", text(layout.pp));
  values.emplace_back("tp", text(layout.tp));
  values.emplace_back("cp", text(layout.cp));
  values.emplace_back("dp", text(settings.batch.dp));
  values.emplace_back("zero", text(settings.zero.stage));
  values.emplace_back("zero-prefetch", text(settings.zero.prefetch));
  values.emplace_back("offload", to_string(settings.offload));
  if (settings.offload.activations)
    values.emplace_back("activation-offload-fraction", text(settings.offload.activation_fraction));
  values.emplace_back("offload-to", settings.offload.to_disk() ? "a disk" : "");
  values.emplace_back("sequence-parallel", text(layout.sequence_parallel));
  values.emplace_back("schedule", layout.plan ? checksum_text(schedules::to_text(*layout.plan)) : layout.schedule);
  values.emplace_back("chunks", text(layout.chunks));
  values.emplace_back("order", layout.replayed ? fmt::format("replay {:016x}", layout.replayed->content)
                               : layout.order == schedules::Order::planned ? "planned"
                                                                           : "ready");
  values.emplace_back("microbatches", text(settings.batch.microbatches));
  values.emplace_back("microbatch", text(settings.batch.microbatch));
  values.emplace_back("slices", text(layout.slices));
  values.emplace_back("cut", cut_text(layout.cut));
  values.emplace_back("device", settings.devices.kind == DeviceKind::cpu ? "cpu" : "cuda");
}

void add_numerics(const RunSettings& settings, NamedValues& values) {
  values.emplace_back("precision", precision_name(settings.numerics.precision));
  values.emplace_back("fp8-recipe", fp8_recipe_name(settings.numerics.precision));
  values.emplace_back("num-layers-at-start-in-bf16", text(settings.numerics.bf16_layers.at_start));
  values.emplace_back("num-layers-at-end-in-bf16", text(settings.numerics.bf16_layers.at_end));
  values.emplace_back("recompute", name_of(settings.numerics.recompute));
  values.emplace_back("recompute-num-layers", text(settings.numerics.recompute_layers));
  values.emplace_back("loss-chunks", text(settings.numerics.loss_chunks));
  values.emplace_back("deterministic", text(settings.numerics.deterministic));
  values.emplace_back("optimizer", settings.optimizer.name);
  values.emplace_back("beta1", text(settings.optimizer.beta1));
  values.emplace_back("beta2", text(settings.optimizer.beta2));
  values.emplace_back("eps", text(settings.optimizer.eps));
  values.emplace_back("weight-decay", text(settings.optimizer.weight_decay));
  values.emplace_back("clip-grad", text(settings.clip_norm));
  values.emplace_back("post-validation", text(settings.post_validation));
  const LossScaleSettings& scale = settings.loss_scale;
  values.emplace_back("loss-scale", scale.dynamic ? "dynamic" : text(scale.initial));
  values.emplace_back("loss-scale-initial", text(scale.initial));
  values.emplace_back("loss-scale-window", text(scale.window));
  values.emplace_back("loss-scale-hysteresis", text(scale.hysteresis));
  values.emplace_back("loss-scale-min", text(scale.minimum));
  values.emplace_back("lr", text(settings.learning_rate.peak));
  values.emplace_back("min-lr", text(settings.learning_rate.minimum));
  values.emplace_back("lr-schedule", text(settings.learning_rate.kind));
  values.emplace_back("warmup-steps", text(settings.learning_rate.warmup_steps));
  values.emplace_back("warmup-ratio", text(settings.learning_rate.warmup_ratio));
  values.emplace_back("warmup-init-lr", text(settings.learning_rate.warmup_initial));
}

}  // namespace

NamedValues job_settings(const RunSettings& settings) {
  NamedValues values;
  values.emplace_back("layers", text(settings.model.layers));
  values.emplace_back("dropout", text(settings.model.dropout));
  values.emplace_back("num-labels", text(settings.model.labels));
  values.emplace_back("trained-parts", to_string(settings.model.trained));
  values.emplace_back("text-keys", fmt::format("{}", fmt::join(settings.data.text_keys, ",")));
  values.emplace_back("chat-template", settings.data.chat_template);
  values.emplace_back("pack", settings.data.pack ? name_of(*settings.data.pack) : "");
  values.emplace_back("seq-len", text(settings.data.seq_len));
  values.emplace_back("seed", text(settings.samples.seed));
  values.emplace_back("shuffle", text(settings.samples.shuffle));
  add_layout(settings, values);
  add_numerics(settings, values);
  values.emplace_back("steps", text(settings.length.steps));
  values.emplace_back("epochs", text(settings.length.epochs));
  values.emplace_back("split", text(settings.evaluation.split));
  values.emplace_back("eval-interval", text(settings.evaluation.interval));
  values.emplace_back("resume", text(settings.saving.resume));
  values.emplace_back("load", text(settings.saving.load.has_value()));
  return values;
}

NamedValues job_contents(const TrainJob& job) {
  NamedValues values;
  values.push_back(model_content(job.config));
  values.emplace_back("data",
                      fmt::format("{:016x}, sequences of {}", data_fingerprint(*job.dataset), job.dataset->sequence_length()));
  values.emplace_back("evaluation data", job.evaluation ? fmt::format("{:016x}", data_fingerprint(*job.evaluation)) : "none");
  values.emplace_back("step to go on from", text(job.steps_done));
  values.emplace_back("applied steps", text(job.initial.applied_steps));
  values.emplace_back("total steps", text(job.learning_rate.total_steps));
  std::string states;
  for (const auto& [name, source] : job.initial.states) states += name + " ";
  values.emplace_back("optimizer states", states);
  return values;
}

}  // namespace pipetrain
