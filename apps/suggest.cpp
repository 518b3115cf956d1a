#include "apps/suggest.hpp"

#include <algorithm>
#include <unordered_map>

namespace pipetrain {

namespace {

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
      {"p", "--pp, --tp and --dp"},
      {"plugin", "--pp, --tp and --dp"},
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
      {"fp16", "--precision bf16"},
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
      {"num-gpus", "--devices"},
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
      {"a", "always on"},
      {"flash-attention", "always on"},
      {"enable-flash-attention", "always on"},
      {"use-flash-attn", "always on"},
      {"enable-all-optimization", "always on"},
      {"enable-fused-normalization", "always on"},
      {"enable-jit-fused", "always on"},
      {"overlap-grad-reduce", "automatic"},
      {"overlap-param-gather", "automatic"},
      {"tp-comm-overlap", "automatic"},
      {"overlap-communication", "automatic"},
      {"overlap-comm", "automatic"},
      {"enable-sequence-overlap", "automatic"},
      {"zero-bucket-size-in-m", "automatic"},
      {"ddp-bucket-cap-mb", "automatic"},
      {"num-layers-per-stage", "automatic: stages are cut by cost"},
      {"nproc-per-node", "pipetrain launch --nproc"},
      {"hostfile", "pipetrain launch"},
      {"master-addr", "pipetrain launch --master HOST:PORT"},
      {"master-port", "pipetrain launch --master HOST:PORT"},
      {"zero-stage", "--zero"},
      {"cpu-offload", "--offload"},
      {"initial-scale", "--loss-scale"},
      {"initial-scale-power", "--loss-scale"},
      {"hidden-dropout", "--dropout"},
      {"attention-dropout", "--dropout"},
  };
  return names;
}

std::string normalised(std::string_view name) {
  std::string result(name);
  std::replace(result.begin(), result.end(), '_', '-');
  std::transform(result.begin(), result.end(), result.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return result;
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> table(a.size() + 1, std::vector<int>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) table[i][0] = static_cast<int>(i);
  for (std::size_t j = 0; j <= b.size(); ++j) table[0][j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i)
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replace = table[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      table[i][j] = std::min({table[i - 1][j] + 1, table[i][j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        table[i][j] = std::min(table[i][j], table[i - 2][j - 2] + 1);
    }
  return table[a.size()][b.size()];
}

std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string wanted = normalised(name);
  const auto begins = [&](const std::string& candidate) { return candidate.starts_with(wanted); };
  if (wanted.size() >= 3 && std::count_if(candidates.begin(), candidates.end(), begins) == 1)
    return *std::find_if(candidates.begin(), candidates.end(), begins);
  const auto nearest = std::min_element(candidates.begin(), candidates.end(), [&](const auto& a, const auto& b) {
    return edit_distance(wanted, a) < edit_distance(wanted, b);
  });
  const int allowed = std::max<int>(1, static_cast<int>(wanted.size()) / 3);
  if (nearest == candidates.end() || edit_distance(wanted, *nearest) > allowed) return std::nullopt;
  return *nearest;
}

std::optional<std::string> our_spelling(std::string_view foreign_name) {
  const auto found = foreign_names().find(normalised(foreign_name));
  if (found == foreign_names().end()) return std::nullopt;
  return std::string(found->second);
}

}  // namespace pipetrain
