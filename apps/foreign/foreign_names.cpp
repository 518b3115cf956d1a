#include "apps/foreign/foreign_names.hpp"

#include <algorithm>
#include <unordered_map>

#include "apps/foreign/foreign_keys.hpp"
#include "core/nearest_name.hpp"

namespace pipetrain {

namespace {

constexpr std::string_view always_on = "this is always on here, leave it out";
constexpr std::string_view automatic = "this is automatic here, leave it out";
constexpr std::string_view cut_by_cost = "stages are cut by cost here, leave it out";
constexpr std::string_view launch_on_each = "pipetrain launch runs on every host by itself (docs/multi-node.md); leave it out";
constexpr std::string_view model_folder = "--model (a preset, or a folder with a config.json)";

// Names in lower case with dashes. Grouped by what they mean here.
const std::unordered_map<std::string_view, std::string_view>& foreign_names() {
  static const std::unordered_map<std::string_view, std::string_view> names = {
      {"c", "--model"},
      {"model-name", "--model"},
      {"model-path", "--model"},
      {"model-name-or-path", "--model"},
      {"model-config", "--model"},
      {"num-layers", "--layers"},
      {"n-layers", "--layers"},
      {"num-hidden-layers", "--layers"},
      {"random-init", "--init random"},
      {"model-random-init", "--init random"},
      {"p", "--pp, --tp, --dp, --zero and --offload"},
      {"plugin", "--pp, --tp, --dp, --zero and --offload"},
      {"d", "--data"},
      {"dataset", "--data"},
      {"dataset-dir", "--data"},
      {"data-path", "--data"},
      {"train-data-path", "--data"},
      {"train-file", "--data"},
      {"tokenizer-path", "--tokenizer"},
      {"tokenizer-model", "--tokenizer"},
      {"tokenizer-name", "--tokenizer"},
      {"pp-size", "--pp"},
      {"pipeline-parallel-size", "--pp"},
      {"pipeline-model-parallel-size", "--pp"},
      {"pipeline-parallel-degree", "--pp"},
      {"stages", "--pp"},
      {"num-stages", "--pp"},
      {"tp-size", "--tp"},
      {"tensor-parallel-size", "--tp"},
      {"tensor-model-parallel-size", "--tp"},
      {"model-parallel-size", "--tp"},
      {"dp-size", "--dp"},
      {"data-parallel-size", "--dp"},
      {"sp", "--sequence-parallel"},
      {"enable-sequence-parallelism", "--sequence-parallel on"},
      {"num-model-chunks", "--chunks"},
      {"virtual-pipeline-model-parallel-size", "--chunks"},
      {"num-layers-per-virtual-pipeline-stage", "--chunks"},
      {"num-virtual-stages-per-pipeline-rank", "--chunks"},
      {"pp-style", "--schedule"},
      {"pipeline-schedule", "--schedule"},
      {"b", "--microbatch or --global-batch"},
      {"batch-size", "--microbatch or --global-batch"},
      {"micro-batch-size", "--microbatch"},
      {"microbatch-size", "--microbatch"},
      {"mbs", "--microbatch"},
      {"train-micro-batch-size-per-gpu", "--microbatch"},
      {"per-device-train-batch-size", "--microbatch"},
      {"local-batch-size", "--microbatch"},
      {"pipeline-parallel-microbatch-size", "--microbatch"},
      {"tensor-parallel-degree", "--tp"},
      {"data-parallel-replicate-degree", "--dp"},
      {"pipeline-parallel-schedule", "--schedule"},
      {"num-microbatches", "--microbatches"},
      {"num-micro-batches", "--microbatches"},
      {"micro-batches", "--microbatches"},
      {"gradient-accumulation-steps", "--microbatches"},
      {"accumulation-steps", "--microbatches"},
      {"grad-accum", "--microbatches"},
      {"gbs", "--global-batch"},
      {"global-batch-size", "--global-batch"},
      {"train-batch-size", "--global-batch"},
      {"l", "--seq-len"},
      {"max-length", "--seq-len"},
      {"max-seq-length", "--seq-len"},
      {"seq-length", "--seq-len"},
      {"sequence-length", "--seq-len"},
      {"block-size", "--seq-len"},
      {"cutoff-len", "--seq-len"},
      {"context-length", "--seq-len"},
      {"e", "--epochs"},
      {"num-epochs", "--epochs"},
      {"num-train-epochs", "--epochs"},
      {"train-iters", "--steps"},
      {"iterations", "--steps"},
      {"max-steps", "--steps"},
      {"train-steps", "--steps"},
      {"learning-rate", "--lr"},
      {"warmup-max-lr", "--lr"},
      {"lr-decay-style", "--lr-schedule"},
      {"lr-scheduler-type", "--lr-schedule"},
      {"lr-scheduler", "--lr-schedule"},
      {"lr-warmup-iters", "--warmup-steps"},
      {"warmup-num-steps", "--warmup-steps"},
      {"lr-warmup-fraction", "--warmup-ratio"},
      {"s", "--warmup-steps"},
      {"w", "--weight-decay"},
      {"wd", "--weight-decay"},
      {"adam-beta1", "--beta1"},
      {"adam-beta2", "--beta2"},
      {"betas", "--beta1 and --beta2"},
      {"eps", "--adam-eps"},
      {"adam-epsilon", "--adam-eps"},
      {"grad-clip", "--clip-grad"},
      {"gradient-clipping", "--clip-grad"},
      {"max-grad-norm", "--clip-grad"},
      {"max-norm", "--clip-grad"},
      {"x", "--precision"},
      {"mixed-precision", "--precision"},
      {"dtype", "--precision"},
      {"bf16", "--precision bf16"},
      {"bfloat16", "--precision bf16"},
      {"fp32", "--precision fp32"},
      {"fp16", "--precision fp16"},
      {"fp8", "--precision fp8"},
      {"fp8-format", "--precision fp8"},
      {"g", "--recompute full"},
      {"grad-checkpoint", "--recompute full"},
      {"gradient-checkpoint", "--recompute full"},
      {"gradient-checkpointing", "--recompute full"},
      {"activation-checkpointing", "--recompute full"},
      {"activation-checkpoint-interval", "--recompute full"},
      {"recompute-granularity", "--recompute"},
      {"recompute-activations", "--recompute selective"},
      {"use-cpu", "--device cpu"},
      {"no-cuda", "--device cpu"},
      {"gpus", "--devices"},
      {"num-gpus", "--devices, or --nproc of pipetrain launch"},
      {"num-threads", "--threads"},
      {"o", "--save"},
      {"save-dir", "--save"},
      {"output-dir", "--save"},
      {"checkpoint-dir", "--save"},
      {"i", "--save-interval"},
      {"save-steps", "--save-interval"},
      {"save-total-limit", "--save-keep"},
      {"f", "--load"},
      {"load-checkpoint", "--load"},
      {"resume-from-checkpoint", "--resume (the newest in --save) or --load"},
      {"t", "--tensorboard"},
      {"tensorboard-dir", "--tensorboard"},
      {"logging-dir", "--tensorboard"},
      {"steps-per-print", "--log-interval"},
      {"logging-steps", "--log-interval"},
      {"deepspeed-config", "--config"},
      {"deepspeed", "--config"},
      {"a", always_on},
      {"flash-attention", always_on},
      {"enable-flash-attention", always_on},
      {"use-flash-attn", always_on},
      {"enable-all-optimization", always_on},
      {"enable-fused-normalization", always_on},
      {"enable-jit-fused", always_on},
      {"overlap-grad-reduce", automatic},
      {"overlap-param-gather", automatic},
      {"tp-comm-overlap", automatic},
      {"overlap-communication", automatic},
      {"overlap-comm", automatic},
      {"enable-sequence-overlap", automatic},
      {"zero-bucket-size-in-m", automatic},
      {"ddp-bucket-cap-mb", automatic},
      {"num-layers-per-stage", "--cut"},
      {"pipeline-model-parallel-layout", "--cut"},
      {"decoder-first-pipeline-num-layers", "--cut"},
      {"decoder-last-pipeline-num-layers", "--cut"},
      {"num-layers-in-first-pipeline-stage", "--cut"},
      {"num-layers-in-last-pipeline-stage", "--cut"},
      {"account-for-embedding-in-pipeline-split", cut_by_cost},
      {"account-for-loss-in-pipeline-split", cut_by_cost},
      {"pipeline-parallel-split-points", "--cut"},
      {"module-fqns-per-model-part", "--cut"},
      {"nproc-per-node", "--nproc"},
      {"max-restarts", "--restart"},
      {"hostfile", launch_on_each},
      {"master-addr", "--master"},
      {"master-port", "--master"},
      {"zero-stage", "--zero"},
      {"cpu-offload", "--offload"},
      {"initial-scale", "--loss-scale-initial"},
      {"initial-scale-power", "--loss-scale-initial"},
      {"hidden-dropout", "--dropout"},
      {"attention-dropout", "--dropout"},
      {"world-size", "--pp, --tp and --dp"},
      {"hidden-size", model_folder},
      {"ffn-hidden-size", model_folder},
      {"num-attention-heads", model_folder},
      {"max-position-embeddings", model_folder},
      {"model.name", "--model"},
      {"model.flavor", "--model"},
      {"hf-assets-path", "--tokenizer, and --model DIR for its weights"},
      {"pipeline", "--pp"},
      {"partition", "--cut"},
      {"partition-method", "--cut"},
      {"num-output-chunks", "--loss-chunks"},
      {"context-parallel-size", "--cp"},
      {"context-parallel-degree", "--cp"},
      {"expert-model-parallel-size", "expert parallelism is not built yet; leave it out"},
      {"expert-parallel-degree", "expert parallelism is not built yet; leave it out"},
      {"data-parallel-shard-degree", "--zero"},
      {"use-distributed-optimizer", "--zero"},
      {"zero-optimization", "--zero"},
      {"stage", "--zero"},
      {"offload-optimizer", "--offload"},
      {"cpu-offloading", "--offload activations"},
      {"cpu-offloading-num-layers", "--offload activations with --activation-offload-fraction"},
      {"fine-grained-activation-offloading", "--offload activations"},
      {"pin-memory", automatic},
      {"allgather-partitions", automatic},
      {"reduce-scatter", automatic},
      {"contiguous-gradients", automatic},
      {"bucket-cap-mb", automatic},
      {"optimizer", "--optimizer of train and tune, or --optimizer-time of simulate"},
      {"optim", "--optimizer"},
      {"scheduler", "--lr-schedule with --warmup-steps and --min-lr"},
      {"warmup-min-lr", "--warmup-init-lr"},
      {"warmup-type", "the warm-up is linear here, leave it out"},
      {"lr-decay-iters", "the rate decays over all steps here, leave it out"},
      {"total-num-steps", "--steps"},
      {"train-samples", "--steps"},
      {"max-steps-per-epoch", "--steps"},
      {"min-scale", "--loss-scale-min"},
      {"max-scale", "the scale grows without limit here, leave it out"},
      {"growth-factor", "the scale doubles here, leave it out"},
      {"backoff-factor", "the scale halves here, leave it out"},
      {"growth-interval", "--loss-scale-window"},
      {"hysteresis", "--loss-scale-hysteresis"},
      {"min-loss-scale", "--loss-scale-min"},
      {"fused-normalization", always_on},
      {"jit-fused", always_on},
      {"activation-checkpoint.mode", "--recompute"},
      {"checkpoint.folder", "--save"},
      {"checkpoint.interval", "--save-interval"},
      {"keep-latest-k", "--save-keep"},
      {"config-file", "--config"},
      {"log-freq", "--log-interval"},
      {"plot-loss", "--report"},
      {"do-eval", "--eval-data"},
      {"validation-file", "--eval-data"},
      {"valid-data-path", "--eval-data"},
      {"validation-split", "--split"},
      {"val-size", "--split"},
      {"evaluation-strategy", "--eval-interval"},
      {"eval-strategy", "--eval-interval"},
      {"eval-steps", "--eval-interval"},
      {"predict-with-generate", "pipetrain generate writes text with a trained model; leave it out"},
  };
  return names;
}

// How other systems call schedules: in lower case, without dashes and underscores.
const std::unordered_map<std::string_view, std::string_view>& foreign_schedules() {
  static const std::unordered_map<std::string_view, std::string_view> names = {
      {"1f1b", "1f1b"},
      {"onefoneb", "1f1b"},
      {"pipedreamflush", "1f1b"},
      {"filldrain", "gpipe"},
      {"gpipe", "gpipe"},
      {"interleaved1f1b", "interleaved"},
      {"virtualpipeline", "interleaved"},
      {"loopedbfs", "looped-bfs"},
      {"zb", "zb-h1"},
      {"zb1p", "zb-h1"},
      {"zerobubble", "zb-h1"},
      {"interleavedzerobubble", "zb-h1 or zb-v"},
      {"zbh1", "zb-h1"},
      {"zbh2", "zb-h2"},
      {"zb2p", "zb-h2"},
      {"zbv", "zb-v"},
      {"zbvzerobubble", "zb-v"},
      {"vhalf", "v-half"},
      {"vmin", "v-min"},
      {"dualpipev", "dualpipe-v"},
      {"dualpipe", "dualpipe-v"},
      {"stp", "braided-v"},
      {"braided", "braided-v"},
      {"braidedv", "braided-v"},
  };
  return names;
}

// "beta1 beta2" -> "--beta1 and --beta2".
std::string as_options(std::string_view targets) {
  const auto space = targets.find(' ');
  const std::string first = "--" + std::string(targets.substr(0, space));
  return space == std::string_view::npos ? first : first + " and --" + std::string(targets.substr(space + 1));
}

// What a key of their files means as an option; nothing for one that is spelled as ours.
std::optional<std::string> as_answer(const ForeignKey& key) {
  std::string target(key.target);
  switch (key.rule) {
    case ForeignRule::maps:
    case ForeignRule::words:
      if (normalised_name(key.key) == key.target) return std::nullopt;
      return as_options(key.target);
    case ForeignRule::when_on:
      std::replace(target.begin(), target.end(), '=', ' ');
      return "--" + target;
    case ForeignRule::holds:
      target += "; leave it out";
      break;
    case ForeignRule::holds_for:
    case ForeignRule::refused:
      break;
  }
  return target.starts_with("--") ? "here " + target : target;
}

// Of the keys that --config takes, by their whole name. `name` is normalised.
std::optional<std::string> from_their_files(std::string_view name) {
  for (const auto keys : {megatron_keys(), deepspeed_keys(), torchtitan_keys()})
    for (const ForeignKey& key : keys)
      if (normalised_name(key.key) == name) return as_answer(key);
  return std::nullopt;
}

}  // namespace

std::optional<std::string> our_spelling(std::string_view foreign_name) {
  const std::string name = normalised_name(foreign_name);
  if (name.ends_with("-bucket-size")) return std::string(automatic);
  auto found = foreign_names().find(name);
  if (found == foreign_names().end()) found = foreign_names().find(std::string_view(name).substr(name.rfind('.') + 1));
  if (found == foreign_names().end()) return from_their_files(name);
  return std::string(found->second);
}

std::optional<std::string> our_schedule(std::string_view foreign_name) {
  std::string name = normalised_name(foreign_name);
  name.erase(std::remove(name.begin(), name.end(), '-'), name.end());
  if (name.starts_with("schedule")) name.erase(0, 8);  // PyTorch's classes, such as ScheduleZBVZeroBubble
  const auto found = foreign_schedules().find(name);
  if (found == foreign_schedules().end()) return std::nullopt;
  return std::string(found->second);
}

}  // namespace pipetrain
