#include "actors/training/job/features.hpp"

#include <algorithm>
#include <memory>

#include "actors/ranks/stage_parts.hpp"
#include "actors/training/job/train_job.hpp"
#include "core/mesh.hpp"
#include "model/optimizer/optimizer.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/plan/braids.hpp"

namespace pipetrain {
namespace {

using schedules::Plan;
using schedules::ScheduleInfo;

struct KnownRun {
  const TrainJob& job;
  const Mesh* ranks;  // null: not known
};

// The value of the setting that asks for a feature, or nothing where the run does not use it.
using Asked = std::optional<std::string>;

struct FeatureRow {
  Feature feature;
  const char* name;
  const char* setting = "";
  Asked (*asked)(const KnownRun& run) = nullptr;  // null: only the command knows
};

Asked asked_if(bool used, const std::string& value = "") { return used ? Asked(value) : std::nullopt; }
Asked asked_above(std::int64_t least, std::int64_t value) { return asked_if(value > least, std::to_string(value)); }

// Null for a plan from a file, and for a name that stands for several schedules.
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

bool divides_tensor_groups(const Mesh& ranks) {
  const auto groups = ranks.groups({Axis::tp});
  return std::any_of(groups.begin(), groups.end(), [&](const auto& members) { return ranks.spans_processes(members); });
}

std::string offload_text(const KnownRun& run) { return to_string(run.job.offload); }

constexpr FeatureRow feature_rows[] = {
    {Feature::ready_order, "{order ready}", "order",
     [](const KnownRun& run) { return asked_if(run.job.layout.order == schedules::Order::ready, "ready"); }},
    {Feature::replayed_order, "{order replay:FILE}", "order",
     [](const KnownRun& run) { return asked_if(run.job.layout.replayed != nullptr, "replay"); }},
    {Feature::no_ready_rule, "a schedule or plan without a rule for what is ready", "schedule",
     [](const KnownRun& run) { return asked_if(lacks_ready_rule(run.job), run.job.layout.schedule); }},
    {Feature::braids, "braids", "schedule",
     [](const KnownRun& run) { return asked_if(has_braids(run.job), run.job.layout.schedule); }},
    {Feature::tensor_braids, "braids at {tp} 2 and more", "schedule",
     [](const KnownRun& run) { return asked_if(run.job.layout.tp > 1 && has_braids(run.job), run.job.layout.schedule); }},
    {Feature::custom_actions, "a plan with custom actions", "schedule",
     [](const KnownRun& run) {
       return asked_if(run.job.layout.plan && !run.job.layout.plan->custom.empty(), run.job.layout.schedule);
     }},
    {Feature::slices, "{slices}", "slices", [](const KnownRun& run) { return asked_above(1, run.job.layout.slices); }},
    {Feature::whole_microbatches, "a schedule other than 1f1b and interleaved", "schedule",
     [](const KnownRun& run) {
       const ScheduleInfo* schedule = schedule_of(run.job);
       return asked_if(schedule != nullptr && !schedule->takes_slices, run.job.layout.schedule);
     }},
    {Feature::tensor_parallel, "{tp}", "tp", [](const KnownRun& run) { return asked_above(1, run.job.layout.tp); }},
    {Feature::divided_stages, "a stage whose ranks run in several processes", "nnodes",
     [](const KnownRun& run) { return asked_if(run.ranks != nullptr && StageParts(*run.ranks).count() > 1); }},
    {Feature::divided_tensor_groups, "tensor-parallel ranks in several processes", "nnodes",
     [](const KnownRun& run) { return asked_if(run.ranks != nullptr && divides_tensor_groups(*run.ranks)); }},
    {Feature::context_parallel, "{cp}", "cp", [](const KnownRun& run) { return asked_above(1, run.job.layout.cp); }},
    {Feature::isolated_documents, "{pack isolated}", "pack",
     [](const KnownRun& run) {
       return asked_if(isolates_documents(run.job.dataset) || isolates_documents(run.job.evaluation), "isolated");
     }},
    {Feature::dropout, "dropout", "dropout", [](const KnownRun& run) { return asked_if(run.job.config.dropout.any()); }},
    {Feature::classification, "sequence classification", "num-labels",
     [](const KnownRun& run) { return asked_if(run.job.config.classifies()); }},
    {Feature::loss_chunks, "{loss-chunks}", "loss-chunks",
     [](const KnownRun& run) { return asked_above(1, run.job.numerics.loss_chunks); }},
    {Feature::fp8, "{precision fp8}", "precision",
     [](const KnownRun& run) { return asked_if(run.job.numerics.precision.fp8_products, "fp8"); }},
    {Feature::one_replica, "one replica ({dp 1} and {cp 1})"},
    {Feature::zero, "{zero}", "zero", [](const KnownRun& run) { return asked_above(0, run.job.zero.stage); }},
    {Feature::zero_3, "{zero 3}", "zero",
     [](const KnownRun& run) { return asked_if(run.job.zero.divides_weights(), std::to_string(run.job.zero.stage)); }},
    {Feature::zero_times, "{gather-weights}, {publish-weights} of simulate"},
    {Feature::offload, "{offload}", "offload",
     [](const KnownRun& run) { return asked_if(run.job.offload.any(), offload_text(run)); }},
    {Feature::host_offload, "{offload} without {offload-to}"},
    {Feature::offload_optimizer, "{offload optimizer}", "offload",
     [](const KnownRun& run) { return asked_if(run.job.offload.optimizer, offload_text(run)); }},
    {Feature::offload_parameters, "{offload parameters}", "offload",
     [](const KnownRun& run) { return asked_if(run.job.offload.parameters, offload_text(run)); }},
    {Feature::offload_activations, "{offload activations}", "offload",
     [](const KnownRun& run) { return asked_if(run.job.offload.activations, offload_text(run)); }},
    {Feature::whole_matrices, "an optimizer that steps whole matrices", "optimizer",
     [](const KnownRun& run) {
       return asked_if(make_optimizer(run.job.optimizer)->granularity() == Granularity::matrix, run.job.optimizer.name);
     }},
    {Feature::post_validation, "{post-validation}", "post-validation",
     [](const KnownRun& run) { return asked_if(run.job.post_validation, "on"); }},
    {Feature::record, "{record}", "record", [](const KnownRun& run) { return asked_if(run.job.recorder != nullptr); }},
    {Feature::profile, "{profile}"},
    {Feature::jitter, "{jitter} of simulate"},
    {Feature::solver_bound, "{schedule solver} of simulate"},
    {Feature::solver_time, "{solver-seconds} of tune"},
    {Feature::cut_search, "{cut search} of tune"},
    {Feature::several_hosts, "{hosts} of tune"},
    {Feature::pytorch_csv, "{plan-out FILE.csv} of simulate"},
};

}  // namespace

UsedFeatures features_of(const TrainJob& job, const Mesh* ranks) {
  UsedFeatures used{job.devices.kind};
  for (const FeatureRow& row : feature_rows)
    if (const Asked value = row.asked ? row.asked({job, ranks}) : std::nullopt) used.add(row.feature, row.setting, *value);
  return used;
}

const char* name_of(Feature feature) { return feature_rows[static_cast<std::size_t>(feature)].name; }

}  // namespace pipetrain
