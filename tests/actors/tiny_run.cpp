#include "tiny_run.hpp"
#include "actors/engine/run_failed.hpp"
#include "model/weights/weights.hpp"

#include <fmt/format.h>

#include "catch.hpp"
#include "model/config/mode_names.hpp"
#include "model/families/family.hpp"
#include "model/families/keys/layer_type_keys.hpp"
#include "model/families/small_config.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/plan/plan_text.hpp"

namespace pipetrain::test {
namespace {

constexpr std::chrono::seconds stall{20};
constexpr Precision precisions[] = {Precision::fp32(), Precision::bf16(), Precision::fp16()};

ModelConfig tiny_config(const TinyRun& tiny) {
  ModelConfig config = small_config(tiny.tied, tiny.family);
  const std::vector<LayerType> types = config.layer_types;
  config.hidden = 8;
  config.layers = tiny.layers;
  config.heads = 2;
  config.kv_heads = 2;
  config.head_dim = 4;
  config.intermediate = 12;
  config.vocabulary = 29;  // tp 2 does not divide it
  config.max_positions = 32;
  config.init_std = 0.3;
  config.layer_types.clear();
  for (std::size_t layer = 0; !types.empty() && layer < static_cast<std::size_t>(tiny.layers); ++layer)
    config.layer_types.push_back(types[layer % types.size()]);
  drop_idle_windows(config);
  config.dropout = {.embedding = tiny.dropout, .attention = tiny.dropout, .residual = tiny.dropout};
  if (tiny.family == Family::qwen2_moe) {
    config.dropout = {.attention = tiny.dropout};
    config.experts = {.count = 6, .chosen = 2, .intermediate = 6, .shared_intermediate = 4, .dense_layers = {1}};
    config.router_losses = {.balance = 0.1, .z = 0.02};
  }
  return config;
}

class TinyData final : public Dataset {
 public:
  TinyData(std::int64_t sequence, std::int64_t vocabulary, bool isolates)
      : Dataset(sequence), vocabulary_(vocabulary), isolates_(isolates) {}
  std::int64_t size() const override { return 1000; }
  std::uint64_t content() const override { return 0; }
  bool isolates_documents() const override { return isolates_; }
  void read(std::int64_t index, Sample& sample) const override {
    sample.ids.resize(static_cast<std::size_t>(sequence_length()) + 1);
    for (std::size_t i = 0; i < sample.ids.size(); ++i)
      sample.ids[i] = static_cast<std::int32_t>((index * 7 + static_cast<std::int64_t>(i * i) * 3) % vocabulary_);
    label_with_next_ids(sample);
    sample.documents.clear();
    for (std::int64_t begin = 0; isolates_ && begin < sequence_length(); begin += 1 + (index + begin) % 5)
      sample.documents.push_back(static_cast<std::int32_t>(begin));
  }

 private:
  std::int64_t vocabulary_;
  bool isolates_;
};

std::shared_ptr<const schedules::Plan> plan_from_text(const Layout& layout, int microbatches) {
  const auto plan = schedules::build_schedule(layout.schedule, {layout.pp, layout.chunks, microbatches, layout.slices});
  return std::make_shared<const schedules::Plan>(schedules::parse_plan(schedules::to_text(plan), "plan"));
}

}  // namespace

std::string to_string(const TinyRun& tiny) {
  if (!tiny.golden.empty()) return tiny.golden + ", " + to_string(tiny.layout);
  return fmt::format("{}{} in {}, {} layers, sequence {}, {} microbatches, dropout {}{}, {}, threads {}{}{}{}",
                     spec_of(tiny.family).name, tiny.tied ? ", tied" : "", precision_name(precisions[tiny.precision]),
                     tiny.layers, tiny.sequence, tiny.microbatches, tiny.dropout, tiny.isolated ? ", documents apart" : "",
                     to_string(tiny.layout), tiny.layout.threads, tiny.from_file ? ", plan from a file" : "",
                     tiny.post_validation ? ", post-validation" : "", tiny.shared ? ", copies in shared memory" : "");
}

TrainJob job_of(const TinyRun& tiny) {
  if (!tiny.golden.empty()) return golden_job(tiny.golden, tiny.layout);
  const ModelConfig config = tiny_config(tiny);
  const Layout& layout = tiny.layout;
  TrainJob job;
  job.config = config;
  job.initial.weights = random_weights(config, 7);
  job.dataset = std::make_shared<TinyData>(tiny.sequence, config.vocabulary, tiny.isolated);
  job.layout.pp = layout.pp;
  job.layout.tp = layout.tp;
  job.layout.cp = layout.cp;
  job.layout.ep = layout.ep;
  job.layout.sequence_parallel = layout.sequence_parallel && layout.tp > 1;
  job.batch = {layout.dp, tiny.microbatches, layout.microbatch};
  job.layout.schedule = layout.schedule;
  job.layout.chunks = layout.chunks;
  job.layout.slices = layout.slices;
  job.layout.cut = layout.cut;
  if (tiny.from_file) job.layout.plan = plan_from_text(layout, tiny.microbatches);
  job.layout.order = layout.order;
  job.devices.threads = layout.threads;
  job.numerics.precision = precisions[tiny.precision];
  job.numerics.recompute = layout.recompute;
  if (tiny.precision == 2) job.loss_scale.initial = 256;
  job.zero.stage = layout.zero;
  job.optimizer.weight_decay = 0.1F;
  job.learning_rate.kind = LearningRate::Kind::constant;
  job.learning_rate.peak = 1e-2;
  job.stall = stall;
  if (tiny.elastic) job.elastic = Elastic::takeover;
  job.shares_copies = tiny.shared;
  job.post_validation = tiny.post_validation;
  if (tiny.clip > 0) job.clip_norm = tiny.clip;
  job.offload = offload_of(layout);
  return job;
}

RunRecord run(const TinyRun& tiny) {
  try {
    return run(job_of(tiny), 2);
  } catch (const RunFailed& failure) {
    std::string cause = to_string(tiny) + ": " + failure.what();
    for (const std::string& line : failure.waiting()) cause += "\n" + line;
    FAIL(cause);
  } catch (const std::exception& error) {
    FAIL(to_string(tiny) << ": " << error.what());
  }
  return {};
}

TinyRun reference_of(TinyRun tiny) {
  Layout& layout = tiny.layout;
  layout.pp = layout.chunks = layout.threads = 1;
  layout.cut.clear();
  layout.schedule = "1f1b";
  layout.order = schedules::Order::planned;
  layout.recompute = Recompute::none;
  layout.zero = 0;
  layout.offload = layout.parameters = layout.gradients = false;
  tiny.from_file = tiny.post_validation = false;
  return tiny;
}

}  // namespace pipetrain::test
