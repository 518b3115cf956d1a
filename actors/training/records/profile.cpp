#include "actors/training/records/profile.hpp"

#include <algorithm>

#include "actors/training/job/job_plan.hpp"
#include "actors/training/job/setting_row.hpp"
#include "actors/training/rank/stage_memory.hpp"
#include "actors/training/records/transfer_times.hpp"
#include "files/json.hpp"
#include "model/config/hf_config_text.hpp"
#include "model/config/mode_names.hpp"

namespace pipetrain {

using schedules::Action;
using schedules::ActionKind;

namespace {

constexpr std::size_t newest_steps = 200;

using Seconds = std::chrono::duration<double>;
using TimePoint = std::chrono::steady_clock::time_point;

double median_of_times(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

double seconds_of(const TracedAction& action) { return Seconds(action.times.end - action.times.start).count(); }

bool is_collective(ActionKind kind) { return kind == ActionKind::reduce_grads || kind == ActionKind::sum_tied; }

}  // namespace

std::string Profile::conditions() const {
  const Numerics& numerics = settings.numerics;
  std::string text = name_of(settings.devices.kind);
  if (has_settings) text += std::string(", ") + numbers_name(numerics.precision);
  if (has_settings && numerics.recompute == Recompute::none) text += ", recompute none";
  text += described_settings(settings);
  if (settings.zero.stage > 0) text += ", zero " + std::to_string(settings.zero.stage);
  if (settings.layout.cp > 1) text += ", cp " + std::to_string(settings.layout.cp);
  if (settings.layout.ep > 1) text += ", ep " + std::to_string(settings.layout.ep);
  if (has_settings) text += std::string(", deterministic ") + (numerics.deterministic ? "on" : "off");
  if (has_settings && settings.devices.kind == DeviceKind::cpu) text += ", threads " + std::to_string(settings.devices.threads);
  return text;
}

schedules::Placement Profile::placement() const {
  return v_shape ? schedules::Placement::v_shape(pp) : schedules::Placement::looping(pp, chunks);
}

schedules::EndOfStep Profile::end_of_step() const {
  const bool sums_parts = std::any_of(stages.begin(), stages.end(), [](const StageProfile& stage) {
    return std::any_of(stage.chunks.begin(), stage.chunks.end(),
                       [](const ChunkProfile& chunk) { return chunk.sum_replicated > 0; });
  });
  return {dp * settings.layout.cp > 1, tp > 1 && (sequence_parallel || sums_parts), tied};
}

bool Profile::splits_backward() const {
  return std::all_of(stages.begin(), stages.end(), [](const StageProfile& stage) {
    return std::all_of(stage.chunks.begin(), stage.chunks.end(),
                       [](const ChunkProfile& chunk) { return chunk.weight_grad > 0; });
  });
}

std::string Profile::why_not(const schedules::Plan& plan) const {
  const auto& placement = plan.placement;
  if (placement != this->placement()) {
    const auto name = [](int count, int each, bool v) {
      return "pp " + std::to_string(count) + " x chunks " + std::to_string(each) + (v ? " (V-shaped)" : "");
    };
    const bool v = placement != schedules::Placement::looping(placement.stages(), placement.chunks());
    return "a profile of " + name(pp, chunks, v_shape) + ", not of " + name(placement.stages(), placement.chunks(), v);
  }
  const auto splits = [](const std::vector<Action>& actions) {
    return std::any_of(actions.begin(), actions.end(), [](const Action& a) { return a.kind == ActionKind::weight_grad; });
  };
  if (!splits_backward() && std::any_of(plan.stages.begin(), plan.stages.end(), splits))
    return "a profile of " + schedule + ", which measured B and not its halves I and W";
  return {};
}

schedules::Costs Profile::costs() const {
  schedules::Costs costs;
  for (const StageProfile& stage : stages) {
    auto& row = costs.chunks.emplace_back();
    for (const ChunkProfile& chunk : stage.chunks) {
      schedules::ChunkCost cost;
      const bool split = chunk.weight_grad > 0;
      cost.forward = chunk.forward;
      cost.input_grad = split ? chunk.input_grad : chunk.backward / 2;  // only their sum is used then
      cost.weight_grad = split ? chunk.weight_grad : chunk.backward / 2;
      cost.reduce_grads = chunk.reduce_grads;
      cost.sum_replicated = chunk.sum_replicated;
      cost.sum_tied = chunk.sum_tied;
      cost.offload = chunk.offload;
      cost.reload = chunk.reload;
      cost.held_bytes = chunk.held_bytes;
      cost.pending_bytes = chunk.pending_bytes;
      row.push_back(cost);
    }
    costs.norm.push_back(stage.norm);
    costs.optimizer.push_back(stage.optimizer);
  }
  const auto placement = this->placement();
  for (int v = 0; v + 1 < placement.virtual_stages(); ++v) costs.links.push_back({p2p[static_cast<std::size_t>(v)]});
  costs.verdict = verdict;
  return costs;
}

std::vector<schedules::Link> Profile::edges() const {
  std::vector<schedules::Link> edges;
  for (int stage = 0; stage + 1 < pp; ++stage) edges.push_back({p2p[static_cast<std::size_t>(stage)]});
  return edges;
}

// The configuration of a run has further layers only if the run trains them.
ModelConfig Profile::measured_model() const {
  ModelConfig measured = parse_hf_config(config, "the profile's model");
  if (measured.mtp.layers > 0) measured.mtp.loss = 1;
  return measured;
}

bool Profile::is_of(const ModelConfig& other) const {
  if (config == profile_config(other)) return true;
  const ModelConfig measured = measured_model();
  return same_model(measured, other) && measured.mtp.is_trained() == other.mtp.is_trained();
}

std::string profile_config(ModelConfig config) {
  config.dropout = {};  // hardly changes the measured times
  return parse_json(hf_config_text(config), {"config.json"}, {.values = 0}).dump();
}

ProfileRecorder::ProfileRecorder(const TrainJob& job, std::string model) : placement_(job.plan->placement) {
  layout_.model = std::move(model);
  layout_.config = profile_config(job.config);
  layout_.pp = job.layout.pp;
  layout_.tp = job.layout.tp;
  layout_.dp = static_cast<int>(job.batch.dp);
  layout_.chunks = job.layout.chunks;
  layout_.microbatches = static_cast<int>(job.batch.microbatches);
  layout_.microbatch = static_cast<int>(job.batch.microbatch);
  layout_.v_shape = placement_ != schedules::Placement::looping(job.layout.pp, job.layout.chunks);
  layout_.sequence_parallel = job.layout.sequence_parallel;
  layout_.tied = job.config.shares_table();
  layout_.schedule = job.layout.schedule;
  static_cast<JobSettings&>(layout_.settings) = job;
  layout_.has_settings = true;
  layout_.sequence = job.dataset->sequence_length();
  const auto parts = parts_of(job, placement_);
  layout_.cut = cut_of(parts);
  const StageMemory memory(job.config, {job.batch.microbatch, layout_.sequence / job.layout.cp}, job);
  for (int stage = 0; stage < job.layout.pp; ++stage) {
    std::vector<std::vector<Block>> chunks;
    for (int chunk = 0; chunk < job.layout.chunks; ++chunk)
      chunks.push_back(parts[static_cast<std::size_t>(placement_.virtual_stage(stage, chunk))]);
    StageProfile& row = layout_.stages.emplace_back();
    for (const ActivationBytes& bytes : memory.activations(chunks)) {
      row.chunks.emplace_back().held_bytes = static_cast<double>(bytes.saved);
      row.chunks.back().pending_bytes = static_cast<double>(bytes.pending);
    }
  }
}

void ProfileRecorder::add(const StepReport& report) {
  struct Sum {
    double seconds = 0;
    int count = 0;
  };
  std::map<Key, Sum> sums;
  Step step;
  TimePoint first = TimePoint::max(), last = TimePoint::min(), norms = TimePoint::min(), optimizers = TimePoint::max();
  double shortest_tied = 0;
  for (const StageTrace& stage : report.trace) {
    for (const TracedAction& traced : stage.actions) {
      const auto [kind, chunk, microbatch] = traced.action;
      const double seconds = seconds_of(traced);
      if (schedules::is_move(kind)) {
        Sum& sum = sums[{stage.stage.stage, chunk, kind}];
        sum.seconds += seconds, ++sum.count;
        continue;
      }
      first = std::min(first, traced.times.start);
      last = std::max(last, traced.times.end);
      if (kind == ActionKind::norm) norms = std::max(norms, traced.times.end);
      if (kind == ActionKind::optimizer) optimizers = std::min(optimizers, traced.times.start);
      if (kind == ActionKind::sum_tied) shortest_tied = shortest_tied == 0 ? seconds : std::min(shortest_tied, seconds);
      // A rank that enters a collective early waits in it for the others.
      Sum& sum = sums[{stage.stage.stage, chunk, kind}];
      if (is_collective(kind) && sum.count == 1) {
        sum.seconds = std::min(sum.seconds, seconds);
      } else {
        sum.seconds += seconds;
        ++sum.count;
      }
    }
  }
  for (const auto& [key, sum] : sums)
    step.seconds[key] = key.kind == ActionKind::sum_tied ? shortest_tied : sum.seconds / sum.count;
  for (auto& messages : transfer_times(placement_, report.trace))
    step.p2p.push_back(messages.empty() ? std::nullopt : std::optional(median_of_times(std::move(messages))));
  step.whole = report.seconds;
  step.outside = std::max(0.0, report.seconds - Seconds(last - first).count());
  if (optimizers != TimePoint::max()) step.verdict = std::max(0.0, Seconds(optimizers - norms).count());
  steps_.push_back(std::move(step));
  if ((!first_dropped_ && steps_.size() == 2) || steps_.size() > newest_steps) steps_.pop_front(), first_dropped_ = true;
}

std::vector<double> ProfileRecorder::messages() const {
  std::vector<std::optional<double>> measured;
  std::vector<double> known;
  for (int v = 0; v + 1 < placement_.virtual_stages(); ++v) {
    std::vector<double> values;
    for (const Step& step : steps_)
      if (const auto& seconds = step.p2p[static_cast<std::size_t>(v)]) values.push_back(*seconds);
    measured.push_back(values.empty() ? std::nullopt : std::optional(median_of_times(std::move(values))));
    if (measured.back()) known.push_back(*measured.back());
  }
  const double usual = median_of_times(std::move(known));
  std::vector<double> all;
  for (int v = 0; v + 1 < placement_.virtual_stages(); ++v) {
    const bool stays = placement_.at(v).stage == placement_.at(v + 1).stage;
    all.push_back(stays ? 0 : measured[static_cast<std::size_t>(v)].value_or(usual));
  }
  return all;
}

Profile ProfileRecorder::profile() const {
  Profile profile = layout_;
  profile.steps = static_cast<std::int64_t>(steps_.size());
  const auto over_steps = [&](const auto& value) {
    std::vector<double> values;
    for (const Step& step : steps_) values.push_back(value(step));
    return median_of_times(std::move(values));
  };
  const auto time = [&](int stage, int chunk, ActionKind kind) {
    return over_steps([&](const Step& step) {
      const auto found = step.seconds.find({stage, chunk, kind});
      return found == step.seconds.end() ? 0 : found->second;
    });
  };
  profile.step_seconds = over_steps([](const Step& step) { return step.whole; });
  profile.outside = over_steps([](const Step& step) { return step.outside; });
  profile.verdict = over_steps([](const Step& step) { return step.verdict; });
  profile.p2p = messages();
  for (int stage = 0; stage < profile.pp; ++stage) {
    StageProfile& row = profile.stages[static_cast<std::size_t>(stage)];
    for (int chunk = 0; chunk < profile.chunks; ++chunk) {
      ChunkProfile& cell = row.chunks[static_cast<std::size_t>(chunk)];
      cell.forward = time(stage, chunk, ActionKind::forward);
      cell.backward = time(stage, chunk, ActionKind::backward);
      cell.input_grad = time(stage, chunk, ActionKind::input_grad);
      cell.weight_grad = time(stage, chunk, ActionKind::weight_grad);
      cell.reduce_grads = time(stage, chunk, ActionKind::reduce_grads);
      cell.sum_replicated = time(stage, chunk, ActionKind::sum_replicated);
      cell.sum_tied = time(stage, chunk, ActionKind::sum_tied);
      cell.offload = time(stage, chunk, ActionKind::offload);
      cell.reload = time(stage, chunk, ActionKind::reload);
    }
    row.norm = time(stage, 0, ActionKind::norm);
    row.optimizer = time(stage, 0, ActionKind::optimizer);
  }
  return profile;
}

}  // namespace pipetrain
