#include "apps/options/train_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "actors/training/checkpoint/checkpoint_folder.hpp"
#include "actors/training/job/batch_sizes.hpp"
#include "actors/training/job/features.hpp"
#include "actors/training/job/setting_row.hpp"
#include "actors/training/job/train_job.hpp"
#include "apps/options/combined_options.hpp"
#include "apps/options/cut_option.hpp"
#include "apps/options/data_options.hpp"
#include "apps/options/device_choice.hpp"
#include "apps/options/numerics_options.hpp"
#include "apps/options/offload_options.hpp"
#include "apps/options/option_files.hpp"
#include "apps/options/option_values.hpp"
#include "apps/options/plan_file.hpp"
#include "apps/options/save_config.hpp"
#include "apps/options/saving_options.hpp"
#include "core/counted.hpp"
#include "core/error.hpp"
#include "model/config/config.hpp"
#include "model/optimizer/optimizer.hpp"
#include "model/weights/stored_model.hpp"
#include "records/recorded_order.hpp"

namespace pipetrain {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t most_train_devices = 65536;
constexpr std::int64_t most_pieces = 32767;

// Reads every setting that its row can keep. Later functions check what settings do not go with.
void read_settings(const OptionValues& values, RunSettings& run) {
  for (const SettingRow& row : setting_table())
    if (row.member.set && values.given(row.name)) row.member.set(run, values.value(row.name));
}

void read_trained_model(const OptionValues& values, ModelSettings& model) {
  const bool stored = names_stored_model(model.name);
  if (stored) refuse_unreadable(values, "model");
  if (!stored && model.name.find('/') != std::string::npos)
    values.fail("model", "there is no such folder; give a Hugging Face folder or a preset's name");
  const auto init = values.choice("init");
  if (init == std::size_t{0} && !stored)
    values.fail("init", fmt::format("hf loads the weights of a folder, but the model {} is no folder; use random", model.name));
  model.load_weights = stored && init.value_or(0) == 0;
}

void check_preferences(const OptionValues& values, const PreferenceSettings& preference) {
  const std::optional<PreferenceFormula> formula = preference.formula();
  const auto refuse = [&](const char* option, const char* losses) {
    if (values.given(option)) values.fail(option, fmt::format("applies to --loss {}; leave it out", losses));
  };
  if (!formula) refuse("preference-beta", "dpo, orpo and kto");
  if (!formula || !formula->has_reference()) refuse("reference", "dpo and kto, which compare with a reference");
  if (!formula || formula->loss != PreferenceLoss::dpo) {
    refuse("preference-normalize", "dpo; orpo always divides by the tokens, and kto never");
    refuse("precompute-reference", "dpo; kto compares new pairs of prompts and completions in every step");
  }
  if (!preference.reference.empty()) refuse_unreadable(values, "reference");
}

// Before the sizes, which a plan from a file gives.
void read_chosen_schedule(const OptionValues& values, LayoutSettings& layout) {
  const ChosenSchedule chosen = read_schedule(values, layout.schedule);
  layout.schedule = chosen.name;
  layout.plan_file = chosen.file;
  layout.plan = chosen.plan;
}

std::string plan_source(const LayoutSettings& layout) { return fmt::format("the plan {}", layout.plan_file); }

void read_zero(const OptionValues& values, RunSettings& run) {
  if (places_data(values)) {
    run.offload.folder = values.text("offload-to").value_or("");
  } else {
    read_offload(values, run.offload);
  }
  if (values.given("zero-prefetch") && !places_data(values) && !run.zero.divides_weights() && !run.offload.parameters)
    values.fail(
        "zero-prefetch",
        fmt::format(
            "applies to --zero 3 and --offload parameters, which bring weights ahead of use, and --zero is {}; leave it out",
            run.zero.stage));
}

void read_router_rules(const OptionValues& values, RouterRules& rules) {
  rules.bias_rate = values.number("moe-bias-rate").value_or(0);
  const auto capacity = values.text("moe-capacity");
  if (capacity && *capacity != "none") rules.capacity = *values.number("moe-capacity");
}

void read_batch_sizes(const OptionValues& values, RunSettings& run) {
  LayoutSettings& layout = run.layout;
  if (layout.plan)
    layout.pp = agreed(values, "pp", most_train_devices, layout.plan->placement.stages(), plan_source(layout), 1);
  const std::int64_t model = std::int64_t{layout.pp} * layout.tp;
  if (model > most_train_devices || model * layout.cp > most_train_devices || run.ranks() > most_train_devices)
    values.fail(values.given("pp")   ? "pp"
                : values.given("tp") ? "tp"
                                     : "cp",
                fmt::format("{} is more than {} devices; use smaller sizes", sizes_text(run), most_train_devices));
  if (run.batch.dp % layout.ep != 0)
    values.fail(
        "ep", fmt::format("the experts are divided over replicas, and --dp is {}; use a number that divides it", run.batch.dp));
  read_router_rules(values, run.model.router_rules);
  read_zero(values, run);
  layout.sequence_parallel = layout.sequence_parallel && layout.tp > 1;
}

// A plan from a file fixes the microbatches.
void read_batch(const OptionValues& values, RunSettings& run) {
  const LayoutSettings& layout = run.layout;
  if (layout.plan)
    agreed(values, "microbatches", std::numeric_limits<std::int32_t>::max(), layout.plan->microbatches / layout.plan->slices,
           plan_source(layout), 1);
  BatchSettings batch;
  batch.microbatch = values.integer("microbatch");
  batch.microbatches = values.integer("microbatches");
  if (!batch.microbatches && layout.plan) batch.microbatches = layout.plan->microbatches / layout.plan->slices;
  batch.global_batch = values.integer("global-batch");
  run.batch = resolve_batch(batch, layout.pp, static_cast<int>(run.batch.dp));
}

// --order replay:FILE
void read_replayed(const OptionValues& values, LayoutSettings& layout) {
  const std::string replay = "replay:", order = values.text("order").value_or("");
  if (!order.starts_with(replay)) return;
  const std::string file = order.substr(replay.size());
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) values.fail("order", "there is no such record; check the path");
  layout.replayed = read_recorded_order(file);
  const auto steps = values.integer("steps");
  const std::int64_t last = layout.replayed->steps.empty() ? 0 : layout.replayed->steps.rbegin()->first;
  if (steps && *steps > last) values.fail("steps", fmt::format("the record of --order ends with step {}; give no more", last));
}

void read_chunks_and_order(const OptionValues& values, RunSettings& run) {
  LayoutSettings& layout = run.layout;
  const schedules::ScheduleInfo* info = layout.plan ? nullptr : schedules::find_schedule(layout.schedule);
  layout.chunks = layout.plan ? agreed(values, "chunks", most_pieces, layout.plan->placement.chunks(), plan_source(layout), 1)
                              : static_cast<int>(values.integer("chunks").value_or(info->default_chunks));
  if (info) check_chunks(values, *info, layout.chunks);
  layout.cut = read_cut(values, StageCounts{layout.pp, layout.chunks});
  if (layout.plan) layout.slices = agreed(values, "slices", most_pieces, layout.plan->slices, plan_source(layout), 1);
  read_replayed(values, layout);
  const bool ready =
      layout.replayed ? layout.replayed->order == schedules::Order::ready : values.choice("order") == std::size_t{1};
  layout.order = ready ? schedules::Order::ready : schedules::Order::planned;
}

void check_learning_rate(const OptionValues& values, LearningRateSettings& rate) {
  if (rate.minimum > rate.peak)
    values.fail("min-lr", fmt::format("must not be above the peak, --lr {}; lower it or raise --lr", rate.peak));
  if (rate.minimum > 0 && rate.kind == LearningRate::Kind::constant)
    values.fail("min-lr", "is the rate at the end, and --lr-schedule constant keeps it at its peak; leave out one of them");
  if (rate.warmup_ratio == 0.0) rate.warmup_ratio.reset();
  if (rate.warmup_initial > 0 && !rate.warmup_ratio && rate.warmup_steps == 0)
    values.fail("warmup-init-lr", "there is no warm-up; give --warmup-steps or --warmup-ratio");
  if (rate.warmup_initial > rate.peak)
    values.fail("warmup-init-lr", fmt::format("must not be above the peak, --lr {}; lower it or raise --lr", rate.peak));
  if (rate.warmup_ratio && rate.warmup_steps > 0)
    values.fail("warmup-ratio", fmt::format("--warmup-steps {} is given too; keep one of them", rate.warmup_steps));
}

void check_optimizer(const OptionValues& values, const OptimizerSettings& optimizer) {
  for (const SettingRow& row : setting_table()) {
    const auto uses = [&](const std::string& name) { return optimizer_uses(name, row.name); };
    if (!values.given(row.name) || uses(optimizer.name)) continue;
    const auto names = optimizer_names();
    if (std::any_of(names.begin(), names.end(), uses))
      values.fail(row.name, fmt::format("the optimizer {} has no such factor; leave it out", optimizer.name));
  }
  if (optimizer.nesterov && optimizer.momentum == 0)
    values.fail("nesterov", "there is no momentum; give --momentum, or leave it out");
}

void read_watch(const OptionValues& values, WatchSettings& watch) {
  if (const auto percent = values.number("watch-slow")) watch.slow = *percent / 100;
  watch.slow_steps = values.integer("watch-slow-steps").value_or(watch.slow_steps);
  watch.loss_spike = values.number("watch-loss-spike").value_or(watch.loss_spike);
  watch.norm_growth = values.number("watch-norm-growth").value_or(watch.norm_growth);
}

void read_files(const OptionValues& values, TrainOptions& options) {
  read_saving(values, options.run.saving);
  options.records.metrics = output_file(values, "metrics", Written::in_place);
  options.records.tensorboard = output_folder(values, "tensorboard");
  options.save_config = output_file(values, "save-config");
  options.records.report = output_file(values, "report");
  options.records.trace = output_file(values, "trace");
  options.records.profile = output_file(values, "profile");
  options.records.record = output_file(values, "record", Written::in_place);
  refuse_shared_files(values,
                      {.inputs = {"model", "data", "eval-data", "load", "tokenizer", "config", "schedule", "token-file"},
                       .output_files = {"metrics", "trace", "profile", "record", "report", "save-config"},
                       .output_folders = {"save", "tensorboard"}});
  options.peak_tflops = values.number("peak-tflops");
  options.log_interval = values.integer("log-interval").value_or(options.log_interval);
  if (const auto port = values.integer("serve")) options.serve = static_cast<int>(*port);
  options.dry_run = values.on_off("dry-run").value_or(false);
  options.retune = values.integer("retune");
  if (options.retune && !options.run.saving.folder)
    values.fail("retune", "needs --save DIR, for the checkpoint with which the run goes on; give it");
  if (options.retune && options.records.record)
    values.fail("retune", "changes the layout, and a run with --record keeps it; leave out one of them");
  read_watch(values, options.watch);
}

void read_fault(const Environment& environment, RunSettings& run) {
  const auto variable = environment.find("PIPETRAIN_FAULT");
  if (variable == environment.end() || variable->second.empty()) return;
  run.fault = parse_fault(variable->second);
  if (run.fault->rank >= run.ranks())
    throw Error(ErrorKind::input,
                fmt::format("PIPETRAIN_FAULT={}: there is no rank {}; {} has {}, counted from 0", variable->second,
                            run.fault->rank, sizes_text(run), counted(run.ranks(), "rank")));
}

// A run that pipetrain launch starts again goes on from what it has saved, whatever it began with.
void go_on_after_restart(TrainOptions& options) {
  SavingSettings& saving = options.run.saving;
  if (options.processes.attempt == 0 || options.processes.join) return;
  options.run.fault.reset();  // it has been
  if (!saving.folder || find_checkpoints(*saving.folder).empty()) return;
  saving.resume = true;
  saving.load.reset();
}

// A process that joins a run counts as one that has ranks, whose states it gets from the others.
void check_join(const OptionValues& values, TrainOptions& options) {
  if (!options.processes.join) return;
  if (options.run.elastic == Elastic::off)
    values.fail("join", "processes join runs with --elastic takeover only; give it the options of the run");
  if (options.dry_run) values.fail("join", "a dry run joins nothing; leave it out");
  options.processes.process = options.run.spares + 1;
  options.processes.processes = options.run.spares + 2;
}

void check_spares(const OptionValues& values, const RunSettings& run, int processes) {
  if (run.spares == 0) return;
  if (run.elastic == Elastic::off)
    values.fail("spares", "wait for ranks of lost processes, and --elastic is off; use --elastic takeover, or leave it out");
  if (run.spares >= processes)
    values.fail("spares", fmt::format("leaves none of the {} for the ranks; start more processes, or keep fewer spare",
                                      counted(processes, "process", "es")));
}

UsedFeatures trained_features(const TrainOptions& options) {
  TrainJob job;
  static_cast<JobSettings&>(job) = options.run;
  UsedFeatures used = features_of(job);
  const RecordSettings& records = options.records;
  if (records.record) used.add(Feature::record, "record", records.record->string());
  if (records.profile) used.add(Feature::profile, "profile", records.profile->string());
  if (options.placement) used.add(Feature::chosen_offload, "offload", "auto");
  if (job.batch.dp * job.layout.cp == 1) used.add(Feature::one_replica, "dp", "1");
  return used;
}

struct Sources {
  const OptionValues& values;
  const Environment& environment;
  const Machine& machine;
};

// Reads the options of a run. `place` returns this process's place in a run of a given number of ranks.
void read_trained_run(const Sources& sources, TrainOptions& options,
                      const std::function<ProcessOptions(std::int64_t ranks)>& place) {
  const auto& [values, environment, machine] = sources;
  options.places = values.places();
  RunSettings& run = options.run;
  read_settings(values, run);
  read_trained_model(values, run.model);
  check_preferences(values, run.preference);
  placing_errors(options.places, [&] {
    read_data(values, run);
    read_evaluation(values, run);
  });
  read_chosen_schedule(values, run.layout);
  read_batch_sizes(values, run);
  options.processes = place(run.ranks() + run.spares);
  check_join(values, options);
  check_spares(values, run, options.processes.processes);
  if (options.processes.leads())
    options.notes.insert(options.notes.end(), options.processes.notes.begin(), options.processes.notes.end());
  placing_errors(options.places, [&] { read_batch(values, run); });
  read_chunks_and_order(values, run);
  check_learning_rate(values, run.learning_rate);
  check_optimizer(values, run.optimizer);
  choose_devices(values, machine, options);
  options.placement = read_data_placement(values, run.devices.kind, options.processes.several());
  const bool gpu = run.devices.kind == DeviceKind::cuda;
  read_numerics(values, gpu, run.numerics);
  if (auto note = precision_note(run.numerics.precision, gpu)) options.notes.push_back(std::move(*note));
  read_loss_scale(values, run.numerics.precision, run.loss_scale);
  read_files(values, options);
  refuse_combinations(values, trained_features(options));
  if (!options.processes.join) read_fault(environment, run);
  go_on_after_restart(options);
}

// The processes of a run that continues in another layout: those that it has now. More of them than ranks are spare.
ProcessOptions present_processes(const Sources& sources, RunSettings& run, const RunPlace& place) {
  constexpr std::int64_t any_ranks = most_processes;
  ProcessOptions processes = read_processes(sources.values, sources.environment, any_ranks);
  processes.join.reset();  // it is a member now
  processes.process = place.process;
  processes.processes = place.processes;
  const auto idle = static_cast<int>(place.processes - run.ranks());
  if (idle > 0 && run.elastic == Elastic::off)
    throw Error(ErrorKind::input, fmt::format("{} for {}: each process needs one at least; use more ranks",
                                              counted(place.processes, "process", "es"), counted(run.ranks(), "rank")));
  run.spares = std::max({0, idle, std::min(run.spares, place.processes - 2)});  // two processes keep ranks where they can
  if (run.elastic == Elastic::takeover && place.processes > 1 && place.processes - run.spares == 1)
    throw Error(ErrorKind::input,
                fmt::format("one of {} would run all ranks, and its states would be nowhere else; use two ranks or more",
                            counted(place.processes, "process", "es")));
  return processes;
}

struct ChangedLayout {
  const std::vector<std::string>& arguments;
  const Environment& environment;
  const Machine& machine;
};

TrainOptions changed_options(const RawOptions& before, const ChangedLayout& change, const RunPlace& place) {
  TrainOptions options;
  RawOptions given = read_command_line(relayout_option_table(), change.arguments);
  RawOptions kept = before;
  forget_data_placement(given, kept);
  given.merge(kept);
  options.given = given_options(train_option_table(), given);
  const OptionValues values(train_option_table(), given);
  const Sources sources{values, change.environment, change.machine};
  read_trained_run(sources, options, [&](std::int64_t) { return present_processes(sources, options.run, place); });
  SavingSettings& saving = options.run.saving;
  saving.resume = true;
  saving.load.reset();
  options.changed = [given, environment = change.environment, machine = change.machine](const auto& more, const RunPlace& at) {
    return changed_options(given, {more, environment, machine}, at);
  };
  return options;
}

}  // namespace

TrainOptions parse_train_options(const std::vector<std::string>& arguments, const Environment& environment,
                                 const Machine& machine) {
  TrainOptions options;
  const RawOptions given = gather_options(train_option_table(), arguments, environment, options.notes);
  options.given = given_options(train_option_table(), given);
  if (given.count("save-config") != 0) options.config_text = to_toml(train_option_table(), given);
  const OptionValues values(train_option_table(), given);
  read_trained_run({values, environment, machine}, options,
                   [&](std::int64_t ranks) { return read_processes(values, environment, ranks); });
  options.changed = [given, environment, machine](const auto& changes, const RunPlace& place) {
    return changed_options(given, {changes, environment, machine}, place);
  };
  return options;
}

LaunchedRun parse_launch_options(const std::vector<std::string>& arguments, const Environment& environment,
                                 const Machine& machine) {
  LaunchedRun run;
  const OptionValues values(train_option_table(),
                            gather_options(train_option_table(), arguments, environment, run.train.notes));
  read_trained_run({values, environment, machine}, run.train, [&](std::int64_t ranks) {
    run.launch = read_launch(values, environment, ranks);
    return processes_of(run.launch);
  });
  return run;
}

}  // namespace pipetrain
