#include "apps/foreign/foreign_names.hpp"

#include <algorithm>
#include <unordered_map>

#include "apps/foreign/foreign_keys.hpp"
#include "core/parsing.hpp"
#include "core/text/nearest_name.hpp"

namespace pipetrain {

namespace {

constexpr std::string_view always_on = "this is always on here, leave it out";
constexpr std::string_view automatic = "this is automatic here, leave it out";
constexpr std::string_view cut_by_cost = "stages are cut by cost here, leave it out";
constexpr std::string_view launch_on_each = "pipetrain launch runs on every host by itself (docs/multi-node.md); leave it out";
constexpr std::string_view model_folder = "--model (a preset, or a folder with a config.json)";

using NameTable = std::unordered_map<std::string_view, std::string_view>;

// One row of a table: ours, and the words that others have for it.
struct Meaning {
  std::string_view ours, theirs;
};

NameTable by_name(std::initializer_list<Meaning> meanings) {
  NameTable names;
  for (const auto& [ours, theirs] : meanings)
    for (const std::string_view name : split(theirs, ' ')) names.emplace(name, ours);
  return names;
}

// Their names are in lower case with dashes.
const NameTable& foreign_names() {
  static const NameTable names = by_name({
      {"--model", "c model-name model-path model-name-or-path model-config model.name model.flavor"},
      {"--layers", "num-layers n-layers num-hidden-layers"},
      {"--init random", "random-init model-random-init"},
      {"--pp, --tp, --dp, --zero and --offload", "p plugin"},
      {"--data", "d dataset dataset-dir data-path train-data-path train-file"},
      {"--tokenizer", "tokenizer-path tokenizer-model tokenizer-name"},
      {"--pp",
       "pp-size pipeline-parallel-size pipeline-model-parallel-size pipeline-parallel-degree stages num-stages pipeline"},
      {"--tp", "tp-size tensor-parallel-size tensor-model-parallel-size model-parallel-size tensor-parallel-degree"},
      {"--dp", "dp-size data-parallel-size data-parallel-replicate-degree"},
      {"--sequence-parallel", "sp"},
      {"--sequence-parallel on", "enable-sequence-parallelism"},
      {"--chunks",
       "num-model-chunks virtual-pipeline-model-parallel-size num-layers-per-virtual-pipeline-stage num-virtual-stages-per-pipeline-rank"},
      {"--schedule", "pp-style pipeline-schedule pipeline-parallel-schedule"},
      {"--microbatch or --global-batch", "b batch-size"},
      {"--microbatch",
       "micro-batch-size microbatch-size mbs train-micro-batch-size-per-gpu per-device-train-batch-size local-batch-size pipeline-parallel-microbatch-size"},
      {"--microbatches",
       "num-microbatches num-micro-batches micro-batches gradient-accumulation-steps accumulation-steps grad-accum"},
      {"--global-batch", "gbs global-batch-size train-batch-size"},
      {"--seq-len", "l max-length max-seq-length seq-length sequence-length block-size cutoff-len context-length"},
      {"--epochs", "e num-epochs num-train-epochs"},
      {"--steps", "train-iters iterations max-steps train-steps total-num-steps train-samples max-steps-per-epoch"},
      {"--lr", "learning-rate warmup-max-lr"},
      {"--lr-schedule", "lr-decay-style lr-scheduler-type lr-scheduler"},
      {"--warmup-steps", "lr-warmup-iters warmup-num-steps s"},
      {"--warmup-ratio", "lr-warmup-fraction"},
      {"--weight-decay", "w wd"},
      {"--beta1", "adam-beta1"},
      {"--beta2", "adam-beta2"},
      {"--beta1 and --beta2", "betas"},
      {"--adam-eps", "eps adam-epsilon"},
      {"--clip-grad", "grad-clip gradient-clipping max-grad-norm max-norm"},
      {"--precision", "x mixed-precision dtype"},
      {"--precision bf16", "bf16 bfloat16"},
      {"--precision fp32", "fp32"},
      {"--precision fp16", "fp16"},
      {"--precision fp8", "fp8 fp8-format"},
      {"--recompute full",
       "g grad-checkpoint gradient-checkpoint gradient-checkpointing activation-checkpointing activation-checkpoint-interval"},
      {"--recompute", "recompute-granularity activation-checkpoint.mode"},
      {"--recompute selective", "recompute-activations"},
      {"--device cpu", "use-cpu no-cuda"},
      {"--devices", "gpus"},
      {"--devices, or --nproc of pipetrain launch", "num-gpus"},
      {"--threads", "num-threads"},
      {"--save", "o save-dir output-dir checkpoint-dir checkpoint.folder"},
      {"--save-interval", "i save-steps checkpoint.interval"},
      {"--save-keep", "save-total-limit keep-latest-k"},
      {"--load", "f load-checkpoint"},
      {"--resume (the newest in --save) or --load", "resume-from-checkpoint"},
      {"--tensorboard", "t tensorboard-dir logging-dir"},
      {"--log-interval", "steps-per-print logging-steps log-freq"},
      {"--config", "deepspeed-config deepspeed config-file"},
      {always_on,
       "a flash-attention enable-flash-attention use-flash-attn enable-all-optimization enable-fused-normalization enable-jit-fused fused-normalization jit-fused"},
      {automatic,
       "overlap-grad-reduce overlap-param-gather tp-comm-overlap overlap-communication overlap-comm enable-sequence-overlap zero-bucket-size-in-m ddp-bucket-cap-mb pin-memory allgather-partitions reduce-scatter contiguous-gradients bucket-cap-mb"},
      {"--cut",
       "num-layers-per-stage pipeline-model-parallel-layout decoder-first-pipeline-num-layers decoder-last-pipeline-num-layers num-layers-in-first-pipeline-stage num-layers-in-last-pipeline-stage pipeline-parallel-split-points module-fqns-per-model-part partition partition-method"},
      {cut_by_cost, "account-for-embedding-in-pipeline-split account-for-loss-in-pipeline-split"},
      {"--nproc", "nproc-per-node"},
      {"--restart", "max-restarts"},
      {launch_on_each, "hostfile"},
      {"--master", "master-addr master-port"},
      {"--zero", "zero-stage data-parallel-shard-degree use-distributed-optimizer zero-optimization stage"},
      {"--offload", "cpu-offload offload-optimizer"},
      {"--loss-scale-initial", "initial-scale initial-scale-power"},
      {"--dropout", "hidden-dropout attention-dropout"},
      {"--pp, --tp and --dp", "world-size"},
      {model_folder, "hidden-size ffn-hidden-size num-attention-heads max-position-embeddings"},
      {"--tokenizer, and --model DIR for its weights", "hf-assets-path"},
      {"--loss-chunks", "num-output-chunks"},
      {"--cp", "context-parallel-size context-parallel-degree"},
      {"--ep", "expert-model-parallel-size expert-parallel-degree"},
      {"--offload activations", "cpu-offloading fine-grained-activation-offloading"},
      {"--offload activations with --activation-offload-fraction", "cpu-offloading-num-layers"},
      {"--optimizer of train and tune, or --optimizer-time of simulate", "optimizer"},
      {"--optimizer", "optim"},
      {"--lr-schedule with --warmup-steps and --min-lr", "scheduler"},
      {"--warmup-init-lr", "warmup-min-lr"},
      {"the warm-up is linear here, leave it out", "warmup-type"},
      {"the rate decays over all steps here, leave it out", "lr-decay-iters"},
      {"--loss-scale-min", "min-scale min-loss-scale"},
      {"the scale grows without limit here, leave it out", "max-scale"},
      {"the scale doubles here, leave it out", "growth-factor"},
      {"the scale halves here, leave it out", "backoff-factor"},
      {"--loss-scale-window", "growth-interval"},
      {"--loss-scale-hysteresis", "hysteresis"},
      {"--report", "plot-loss"},
      {"--eval-data", "do-eval validation-file valid-data-path"},
      {"--split", "validation-split val-size"},
      {"--eval-interval", "evaluation-strategy eval-strategy eval-steps"},
      {"pipetrain generate writes text with a trained model; leave it out", "predict-with-generate"},
  });
  return names;
}

// Returns the names of schedules in other systems, in lower case, without dashes and underscores.
const NameTable& foreign_schedules() {
  static const NameTable names = by_name({
      {"1f1b", "1f1b onefoneb pipedreamflush"},
      {"gpipe", "filldrain gpipe"},
      {"interleaved", "interleaved1f1b virtualpipeline"},
      {"looped-bfs", "loopedbfs"},
      {"zb-h1", "zb zb1p zerobubble zbh1"},
      {"zb-h1 or zb-v", "interleavedzerobubble"},
      {"zb-h2", "zbh2 zb2p"},
      {"zb-v", "zbv zbvzerobubble"},
      {"v-half", "vhalf"},
      {"v-min", "vmin"},
      {"dualpipe-v", "dualpipev dualpipe"},
      {"braided-v", "stp braided braidedv"},
  });
  return names;
}

// Returns "--beta1 and --beta2" for "beta1 beta2".
std::string as_options(std::string_view targets) {
  const auto space = targets.find(' ');
  const std::string first = "--" + std::string(targets.substr(0, space));
  return space == std::string_view::npos ? first : first + " and --" + std::string(targets.substr(space + 1));
}

// Returns the option, or the explanation, for a key of a foreign file; nothing if our option has the same name.
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

// Returns the answer for a key that --config takes, by its whole name. `name` is normalised.
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
  if (found == foreign_names().end()) {
    if (auto key = from_their_files(name)) return key;
    found = foreign_names().find(std::string_view(name).substr(name.rfind('.') + 1));
  }
  if (found == foreign_names().end()) return std::nullopt;
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
