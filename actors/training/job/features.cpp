#include "actors/training/job/features.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>

#include "actors/ranks/stage_parts.hpp"
#include "actors/training/job/train_job.hpp"
#include "core/mesh.hpp"
#include "model/families/adapter_tensors.hpp"
#include "model/optimizer/optimizer.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/plan/braids.hpp"

namespace pipetrain {
namespace {

using schedules::ScheduleInfo;

// The value of the setting that asks for a feature, or nothing where the run does not use it.
using Asked = std::optional<std::string>;

Asked asked_if(bool used, const std::string& value = "") { return used ? Asked(value) : std::nullopt; }
Asked asked_above(std::int64_t least, std::int64_t value) { return asked_if(value > least, std::to_string(value)); }

// Returns null for a plan from a file, and for a name that stands for several schedules.
const ScheduleInfo* schedule_of(const TrainJob& job) {
  return job.layout.plan ? nullptr : schedules::find_schedule(job.layout.schedule);
}

bool has_braids(const TrainJob& job) {
  const ScheduleInfo* schedule = schedule_of(job);
  return job.layout.plan ? schedules::has_braids(*job.layout.plan) : schedule != nullptr && schedule->braids;
}

bool lacks_ready_rule(const TrainJob& job) {
  const ScheduleInfo* schedule = schedule_of(job);
  return job.layout.plan ? job.layout.plan->ready_rule == schedules::ReadyRule::none
                         : schedule != nullptr && !schedule->has_ready_rule;
}

bool isolates_documents(const std::shared_ptr<const Dataset>& data) { return data && data->isolates_documents(); }

struct FeatureRun {
  const TrainJob& job;
  const Mesh* ranks;  // null: not known
};

struct FeatureRow {
  Feature feature;
  const char* name;
  const char* setting = "";
  Asked (*asked)(const FeatureRun& run) = nullptr;  // null: only the command knows
};

struct FeatureTable {
  using enum Feature;
  using Run = FeatureRun;
  static constexpr FeatureRow rows[] = {
      {ready_order, "{order ready}", "order",
       [](const Run& run) { return asked_if(run.job.layout.order == schedules::Order::ready, "ready"); }},
      {replayed_order, "{order replay:FILE}", "order",
       [](const Run& run) { return asked_if(run.job.layout.replayed != nullptr, "replay"); }},
      {no_ready_rule, "a schedule or plan without a rule for what is ready", "schedule",
       [](const Run& run) { return asked_if(lacks_ready_rule(run.job), run.job.layout.schedule); }},
      {braids, "braids", "schedule", [](const Run& run) { return asked_if(has_braids(run.job), run.job.layout.schedule); }},
      {exchanging_braids, "braids with {tp} or {ep}", "schedule",
       [](const Run& run) {
         const auto& layout = run.job.layout;
         return asked_if((layout.tp > 1 || layout.ep > 1) && has_braids(run.job), layout.schedule);
       }},
      {custom_actions, "a plan with custom actions", "schedule",
       [](const Run& run) {
         return asked_if(run.job.layout.plan && !run.job.layout.plan->custom.empty(), run.job.layout.schedule);
       }},
      {slices, "{slices}", "slices", [](const Run& run) { return asked_above(1, run.job.layout.slices); }},
      {whole_microbatches, "a schedule other than 1f1b and interleaved", "schedule",
       [](const Run& run) {
         const ScheduleInfo* schedule = schedule_of(run.job);
         return asked_if(schedule != nullptr && !schedule->takes_slices, run.job.layout.schedule);
       }},
      {tensor_parallel, "{tp}", "tp", [](const Run& run) { return asked_above(1, run.job.layout.tp); }},
      {divided_stages, "a stage whose ranks run in several processes", "nnodes",
       [](const Run& run) { return asked_if(run.ranks != nullptr && StageParts(*run.ranks).count() > 1); }},
      {context_parallel, "{cp}", "cp", [](const Run& run) { return asked_above(1, run.job.layout.cp); }},
      {isolated_documents, "{pack isolated}", "pack",
       [](const Run& run) {
         return asked_if(isolates_documents(run.job.dataset) || isolates_documents(run.job.evaluation), "isolated");
       }},
      {dropout, "dropout", "dropout", [](const Run& run) { return asked_if(run.job.config.dropout.any()); }},
      {classification, "sequence classification", "num-labels",
       [](const Run& run) { return asked_if(run.job.config.classifies()); }},
      {preferences, "{loss} dpo, orpo and kto", "loss",
       [](const Run& run) {
         constexpr const char* names[] = {"lm", "dpo", "orpo", "kto"};
         return asked_if(run.job.preference.loss != TrainingLoss::lm, names[static_cast<std::size_t>(run.job.preference.loss)]);
       }},
      {further_prediction, "{mtp-loss}", "mtp-loss",
       [](const Run& run) { return asked_if(run.job.config.mtp.is_trained(), fmt::format("{}", run.job.config.mtp.loss)); }},
      {experts, "routed experts", "model", [](const Run& run) { return asked_if(run.job.config.routed_layers() > 0); }},
      {isolated_experts, "routed experts with {pack isolated}", "pack",
       [](const Run& run) {
         return asked_if(run.job.config.routed_layers() > 0 && isolates_documents(run.job.dataset), "isolated");
       }},
      {expert_parallel, "{ep}", "ep", [](const Run& run) { return asked_above(1, run.job.layout.ep); }},
      {expert_capacity, "{moe-capacity}", "moe-capacity",
       [](const Run& run) {
         return asked_if(run.job.config.router_rules.capacity > 0, fmt::format("{}", run.job.config.router_rules.capacity));
       }},
      {expert_biases, "{moe-bias-rate}", "moe-bias-rate",
       [](const Run& run) {
         return asked_if(run.job.config.router_rules.bias_rate > 0, fmt::format("{}", run.job.config.router_rules.bias_rate));
       }},
      {layer_balance, "{moe-aux-scope layer}", "moe-aux-scope",
       [](const Run& run) {
         return asked_if(run.job.config.routed_layers() > 0 && run.job.config.router_losses.by_layer, "layer");
       }},
      {sigmoid_router, "DeepSeek-V3", "model",
       [](const Run& run) { return asked_if(run.job.config.routed_layers() > 0 && run.job.config.experts.scores.sigmoid); }},
      {router_z_loss, "{moe-z-loss}", "moe-z-loss",
       [](const Run& run) {
         return asked_if(run.job.config.router_losses.z > 0, fmt::format("{}", run.job.config.router_losses.z));
       }},
      {half_precision, "{precision bf16}, {precision fp16}", "precision",
       [](const Run& run) {
         const Precision& precision = run.job.numerics.precision;
         return asked_if(precision.rounds_weights(), precision.compute == DType::bf16 ? "bf16" : "fp16");
       }},
      {scaled_loss, "{precision fp16}", "precision",
       [](const Run& run) { return asked_if(run.job.numerics.precision.compute == DType::f16, "fp16"); }},
      {adapter_dropout, "{lora-dropout}", "lora-dropout",
       [](const Run& run) {
         return asked_if(run.job.config.adapter.exists() && run.job.config.adapter.dropout > 0,
                         fmt::format("{}", run.job.config.adapter.dropout));
       }},
      {expert_adapters, "adapters of routed experts", "lora-targets",
       [](const Run& run) { return asked_if(adapts_experts(run.job.config)); }},
      {quantised_base, "{base-precision fp8}, {base-precision nf4}", "base-precision",
       [](const Run& run) {
         const WeightForm form = run.job.config.base_form;
         return asked_if(form != WeightForm::plain, name_of(form));
       }},
      {loss_chunks, "{loss-chunks}", "loss-chunks",
       [](const Run& run) { return asked_above(1, run.job.numerics.loss_chunks); }},
      {fp8, "{precision fp8}", "precision",
       [](const Run& run) { return asked_if(run.job.numerics.precision.fp8_products, "fp8"); }},
      {fp8_blockwise, "{fp8-recipe blockwise}", "fp8-recipe",
       [](const Run& run) { return asked_if(run.job.numerics.precision.fp8_blockwise, "blockwise"); }},
      {latent_attention, "latent attention", "model",
       [](const Run& run) { return asked_if(run.job.config.latent.has_value()); }},
      {one_replica, "one replica ({dp 1} and {cp 1})"},
      {zero, "{zero}", "zero", [](const Run& run) { return asked_above(0, run.job.zero.stage); }},
      {zero_2, "{zero 2}, {zero 3}", "zero",
       [](const Run& run) { return asked_if(run.job.zero.divides_grads(), std::to_string(run.job.zero.stage)); }},
      {zero_3, "{zero 3}", "zero",
       [](const Run& run) { return asked_if(run.job.zero.divides_weights(), std::to_string(run.job.zero.stage)); }},
      {compressed_gradients, "{compress-gradients}", "compress-gradients",
       [](const Run& run) {
         return asked_if(run.job.compression.gradients != BlockCode::none, name_of(run.job.compression.gradients));
       }},
      {one_bit_gradients, "{compress-gradients 1bit}", "compress-gradients",
       [](const Run& run) {
         return asked_if(run.job.compression.gradients == BlockCode::sign, name_of(run.job.compression.gradients));
       }},
      {compression_hosts, "{compress-hosts}", "compress-hosts",
       [](const Run& run) { return asked_if(run.job.compression.hosts > 0, std::to_string(run.job.compression.hosts)); }},
      {compressed_weights, "{compress-weights}", "compress-weights",
       [](const Run& run) {
         return asked_if(run.job.compression.weights != BlockCode::none, name_of(run.job.compression.weights));
       }},
      {whole_states, "{zero 0}", "zero", [](const Run& run) { return asked_if(run.job.zero.stage == 0, "0"); }},
      {stepped_in_place, "{zero 1}, {zero 2} in fp32", "zero",
       [](const Run& run) {
         const Zero& zero = run.job.zero;
         return asked_if(zero.stage > 0 && !zero.divides_weights() && !run.job.numerics.precision.rounds_weights(),
                         std::to_string(zero.stage));
       }},
      {zero_times, "{gather-weights}, {publish-weights} of simulate"},
      {offload, "{offload}", "offload",
       [](const Run& run) { return asked_if(run.job.offload.any(), to_string(run.job.offload)); }},
      {host_offload, "{offload} without {offload-to}"},
      {offload_optimizer, "{offload optimizer}", "offload",
       [](const Run& run) { return asked_if(run.job.offload.optimizer, to_string(run.job.offload)); }},
      {offload_parameters, "{offload parameters}", "offload",
       [](const Run& run) { return asked_if(run.job.offload.parameters, to_string(run.job.offload)); }},
      {offload_activations, "{offload activations}", "offload",
       [](const Run& run) { return asked_if(run.job.offload.activations, to_string(run.job.offload)); }},
      {chosen_offload, "{offload auto}"},
      {whole_matrices, "optimizers of whole tensors", "optimizer",
       [](const Run& run) {
         return asked_if(make_optimizer(run.job.optimizer)->granularity() == Granularity::matrix, run.job.optimizer.name);
       }},
      {singular_vectors, "{optimizer galore}", "optimizer",
       [](const Run& run) { return asked_if(run.job.optimizer.name == "galore", run.job.optimizer.name); }},
      {eight_bit_moments, "{optimizer adamw-8bit}", "optimizer",
       [](const Run& run) {
         return asked_if(make_optimizer(run.job.optimizer)->granularity() == Granularity::block, run.job.optimizer.name);
       }},
      {other_optimizer, "optimizers other than adamw", "optimizer",
       [](const Run& run) { return asked_if(run.job.optimizer.name != OptimizerSettings{}.name, run.job.optimizer.name); }},
      {post_validation, "{post-validation}", "post-validation",
       [](const Run& run) { return asked_if(run.job.post_validation, "on"); }},
      {elastic, "{elastic takeover}", "elastic",
       [](const Run& run) { return asked_if(run.job.elastic == Elastic::takeover, "takeover"); }},
      {record, "{record}", "record", [](const Run& run) { return asked_if(run.job.recorder != nullptr); }},
      {profile, "{profile}"},
      {jitter, "{jitter} of simulate"},
      {solver_bound, "{schedule solver} of simulate"},
      {solver_time, "{solver-seconds} of tune"},
      {cut_search, "{cut search} of tune"},
      {several_hosts, "{hosts} of tune"},
      {pytorch_csv, "{plan-out FILE.csv} of simulate"},
  };
};

constexpr bool feature_rows_are_in_order() {
  for (std::size_t i = 0; i < std::size(FeatureTable::rows); ++i)
    if (FeatureTable::rows[i].feature != static_cast<Feature>(i)) return false;
  return FeatureTable::rows[std::size(FeatureTable::rows) - 1].feature == Feature::pytorch_csv;
}
static_assert(feature_rows_are_in_order(), "a row for each feature, in the order of the enumeration");

}  // namespace

UsedFeatures features_of(const TrainJob& job, const Mesh* ranks) {
  UsedFeatures used{job.devices.kind};
  for (const FeatureRow& row : FeatureTable::rows)
    if (const Asked value = row.asked ? row.asked({job, ranks}) : std::nullopt) used.add(row.feature, row.setting, *value);
  return used;
}

const char* name_of(Feature feature) { return FeatureTable::rows[static_cast<std::size_t>(feature)].name; }

}  // namespace pipetrain
