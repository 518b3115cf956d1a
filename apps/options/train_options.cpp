#include "apps/options/train_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "actors/training/checkpoint/checkpoint_folder.hpp"
#include "actors/training/job/batch_sizes.hpp"
#include "actors/training/job/features.hpp"
#include "actors/training/job/train_job.hpp"
#include "apps/options/combined_options.hpp"
#include "apps/options/cut_option.hpp"
#include "apps/options/data_options.hpp"
#include "apps/options/device_choice.hpp"
#include "apps/options/numerics_options.hpp"
#include "apps/options/offload_options.hpp"
#include "apps/options/optimizer_options.hpp"
#include "apps/options/option_files.hpp"
#include "apps/options/option_values.hpp"
#include "apps/options/plan_file.hpp"
#include "apps/options/save_config.hpp"
#include "apps/options/saving_options.hpp"
#include "core/counted.hpp"
#include "core/error.hpp"
#include "model/config/config.hpp"
#include "model/weights/stored_model.hpp"
#include "records/recorded_order.hpp"
#include "schedules/builders/builders.hpp"

namespace pipetrain {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t any_train_count = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t most_train_devices = 65536;
constexpr std::int64_t most_slices = 32767;

// Whether an option that is not built asks for what happens without it, such as --cp 1.
bool asks_for_default(const OptionValues& values, const OptionSpec& spec) {
  const std::string word = values.text(spec.name).value_or("");
  return word == spec.default_value || (spec.default_value == "off" && word_of_switch(word) == false);
}

void refuse_unbuilt(const OptionValues& values) {
  for (const OptionSpec& spec : train_option_table())
    if (!spec.built && values.given(spec.name) && !asks_for_default(values, spec))
      values.fail(spec.name, "this option is not built yet; leave it out");
}

void read_trained_model(const OptionValues& values, ModelSettings& model) {
  model.name = values.text("model").value_or(model.name);
  const bool stored = names_stored_model(model.name);
  if (stored) refuse_unreadable(values, "model");
  if (!stored && model.name.find('/') != std::string::npos)
    values.fail("model", "there is no such folder; give a Hugging Face folder or a preset's name");
  const auto init = values.choice("init", {"hf", "random"});
  if (init == std::size_t{0} && !stored)
    values.fail("init", fmt::format("hf loads the weights of a folder, but the model {} is no folder; use random", model.name));
  model.load_weights = stored && init.value_or(0) == 0;
  model.dropout = values.number("dropout", {.has_maximum = true, .maximum = 1});
  model.layers = values.integer("layers", 1, 1'000'000);
  model.labels = values.integer("num-labels", least_labels, most_labels);
}

// Before the sizes, which a plan from a file gives.
void read_schedule_name(const OptionValues& values, LayoutSettings& layout) {
  layout.schedule = values.text("schedule").value_or(layout.schedule);
  if (schedules::find_schedule(layout.schedule)) return;
  if (!names_plan_file(layout.schedule)) fail_unknown_schedule(values, layout.schedule, schedule_names());
  check_input_file(values, "schedule");
  layout.plan_file = layout.schedule;
  layout.plan = std::make_shared<const schedules::Plan>(read_plan_file(layout.plan_file));
  layout.schedule = layout.plan->schedule;
}

std::string plan_source(const LayoutSettings& layout) { return fmt::format("the plan {}", layout.plan_file); }

void read_zero(const OptionValues& values, RunSettings& run) {
  run.zero.stage = static_cast<int>(values.integer("zero", 0, 3).value_or(0));
  run.offload = read_offload(values);
  const auto prefetch = values.integer("zero-prefetch", 0, 64);
  if (prefetch && !run.zero.divides_weights() && !run.offload.parameters)
    values.fail(
        "zero-prefetch",
        fmt::format("is of --zero 3 and --offload parameters, which bring weights ahead of use, and --zero is {}; leave "
                    "it out",
                    run.zero.stage));
  run.zero.prefetch = static_cast<int>(prefetch.value_or(run.zero.prefetch));
}

void read_batch_sizes(const OptionValues& values, RunSettings& run) {
  LayoutSettings& layout = run.layout;
  const auto size = [&](const char* name) { return static_cast<int>(values.integer(name, 1, most_train_devices).value_or(1)); };
  layout.pp = layout.plan ? agreed(values, "pp", most_train_devices, layout.plan->placement.stages(), plan_source(layout), 1)
                          : size("pp");
  layout.tp = size("tp");
  layout.cp = size("cp");
  run.batch.dp = size("dp");
  const std::int64_t model = std::int64_t{layout.pp} * layout.tp;
  if (model > most_train_devices || model * layout.cp > most_train_devices || run.ranks() > most_train_devices)
    values.fail(values.given("pp")   ? "pp"
                : values.given("tp") ? "tp"
                                     : "cp",
                fmt::format("{} is more than {} devices; use smaller sizes", sizes_text(run), most_train_devices));
  read_zero(values, run);
  layout.sequence_parallel = values.on_off("sequence-parallel").value_or(true) && layout.tp > 1;
  run.post_validation = values.on_off("post-validation").value_or(false);
}

// A plan from a file fixes the microbatches.
void read_batch(const OptionValues& values, RunSettings& run) {
  const LayoutSettings& layout = run.layout;
  if (layout.plan)
    agreed(values, "microbatches", std::numeric_limits<std::int32_t>::max(), layout.plan->microbatches / layout.plan->slices,
           plan_source(layout), 1);
  BatchSettings batch;
  batch.microbatch = values.integer("microbatch", 1, largest_batch_factor);
  batch.microbatches = values.integer("microbatches", 1, largest_batch_factor);
  if (!batch.microbatches && layout.plan) batch.microbatches = layout.plan->microbatches / layout.plan->slices;
  batch.global_batch = values.integer("global-batch", 1, largest_batch_factor * largest_batch_factor);
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
  const auto steps = values.integer("steps", 1, any_train_count);
  const std::int64_t last = layout.replayed->steps.empty() ? 0 : layout.replayed->steps.rbegin()->first;
  if (steps && *steps > last) values.fail("steps", fmt::format("the record of --order ends with step {}; give no more", last));
}

void read_chunks_and_order(const OptionValues& values, RunSettings& run) {
  LayoutSettings& layout = run.layout;
  const schedules::ScheduleInfo* info = layout.plan ? nullptr : schedules::find_schedule(layout.schedule);
  layout.chunks = layout.plan ? agreed(values, "chunks", 32767, layout.plan->placement.chunks(), plan_source(layout), 1)
                              : static_cast<int>(values.integer("chunks", 1, 1024).value_or(info->default_chunks));
  if (info && layout.chunks != info->default_chunks && !info->chunks_can_vary)
    values.fail("chunks", fmt::format("the schedule {} has {} {} on each stage; leave it out", layout.schedule,
                                      info->default_chunks, info->default_chunks == 1 ? "chunk" : "chunks"));
  layout.cut = read_cut(values, StageCounts{layout.pp, layout.chunks});
  layout.slices = layout.plan ? agreed(values, "slices", most_slices, layout.plan->slices, plan_source(layout), 1)
                              : static_cast<int>(values.integer("slices", 1, most_slices).value_or(1));
  read_replayed(values, layout);
  const bool ready = layout.replayed ? layout.replayed->order == schedules::Order::ready
                                     : values.choice("order", {"planned", "ready"}) == std::size_t{1};
  layout.order = ready ? schedules::Order::ready : schedules::Order::planned;
}

void read_learning_rate(const OptionValues& values, LearningRateSettings& rate) {
  rate.peak = values.number("lr", {}).value_or(rate.peak);
  rate.minimum = values.number("min-lr", {}).value_or(rate.minimum);
  if (rate.minimum > rate.peak)
    values.fail("min-lr", fmt::format("must not be above the peak, --lr {}; lower it or raise --lr", rate.peak));
  const auto kind = values.choice("lr-schedule", {"constant", "linear", "cosine"});
  constexpr LearningRate::Kind kinds[] = {LearningRate::Kind::constant, LearningRate::Kind::linear, LearningRate::Kind::cosine};
  if (kind) rate.kind = kinds[*kind];
  if (rate.minimum > 0 && rate.kind == LearningRate::Kind::constant)
    values.fail("min-lr",
                "is where the rate comes down to, and --lr-schedule constant keeps it at its peak; leave out one of them");
  rate.warmup_steps = values.integer("warmup-steps", 0, any_train_count).value_or(0);
  rate.warmup_ratio = values.number("warmup-ratio", {.minimum = 0, .has_maximum = true, .maximum = 1, .with_maximum = true});
  if (rate.warmup_ratio == 0.0) rate.warmup_ratio.reset();
  rate.warmup_initial = values.number("warmup-init-lr", {}).value_or(0);
  if (rate.warmup_initial > 0 && !rate.warmup_ratio && rate.warmup_steps == 0)
    values.fail("warmup-init-lr", "there is no warm-up; give --warmup-steps or --warmup-ratio");
  if (rate.warmup_initial > rate.peak)
    values.fail("warmup-init-lr", fmt::format("must not be above the peak, --lr {}; lower it or raise --lr", rate.peak));
  if (rate.warmup_ratio && rate.warmup_steps > 0)
    values.fail("warmup-ratio", fmt::format("--warmup-steps {} is given too; keep one of them", rate.warmup_steps));
}

void read_length_and_optimizer(const OptionValues& values, RunSettings& run) {
  run.length.steps = values.integer("steps", 1, any_train_count);
  run.length.epochs = values.integer("epochs", 1, any_train_count);
  read_learning_rate(values, run.learning_rate);
  run.optimizer = read_optimizer(values);
  run.clip_norm = values.number("clip-grad", {}).value_or(run.clip_norm);
}

void read_watch(const OptionValues& values, WatchSettings& watch) {
  if (const auto percent = values.number("watch-slow", {})) watch.slow = *percent / 100;
  watch.slow_steps = values.integer("watch-slow-steps", 1, 1'000'000).value_or(watch.slow_steps);
  watch.loss_spike = values.number("watch-loss-spike", {}).value_or(watch.loss_spike);
  watch.norm_growth = values.number("watch-norm-growth", {}).value_or(watch.norm_growth);
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
  options.peak_tflops = values.number("peak-tflops", {.minimum = 0, .above = true, .has_maximum = true, .maximum = 1e9});
  options.log_interval = values.integer("log-interval", 1, any_train_count).value_or(options.log_interval);
  options.dry_run = values.on_off("dry-run").value_or(false);
  read_watch(values, options.watch);
  if (const auto seconds = values.integer("stall-timeout", 0, 1'000'000)) options.run.stall = std::chrono::seconds(*seconds);
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
  if (options.processes.attempt == 0) return;
  options.run.fault.reset();  // it has been
  if (!saving.folder || find_checkpoints(*saving.folder).empty()) return;
  saving.resume = true;
  saving.load.reset();
}

UsedFeatures trained_features(const TrainOptions& options) {
  TrainJob job;
  static_cast<JobSettings&>(job) = options.run;
  UsedFeatures used = features_of(job);
  const RecordSettings& records = options.records;
  if (records.record) used.add(Feature::record, "record", records.record->string());
  if (records.profile) used.add(Feature::profile, "profile", records.profile->string());
  if (job.batch.dp * job.layout.cp == 1) used.add(Feature::one_replica, "dp", "1");
  return used;
}

struct Sources {
  const OptionValues& values;
  const Environment& environment;
  const Machine& machine;
};

// `place` gives the process its place among those of a run of so many ranks.
void read_trained_run(const Sources& sources, TrainOptions& options,
                      const std::function<ProcessOptions(std::int64_t ranks)>& place) {
  const auto& [values, environment, machine] = sources;
  options.places = values.places();
  refuse_unbuilt(values);
  RunSettings& run = options.run;
  read_trained_model(values, run.model);
  placing_errors(options.places, [&] {
    read_data(values, run);
    read_evaluation(values, run);
  });
  read_schedule_name(values, run.layout);
  read_batch_sizes(values, run);
  options.processes = place(run.ranks());
  if (options.processes.leads())
    options.notes.insert(options.notes.end(), options.processes.notes.begin(), options.processes.notes.end());
  placing_errors(options.places, [&] { read_batch(values, run); });
  read_chunks_and_order(values, run);
  read_length_and_optimizer(values, run);
  choose_devices(values, machine, options);
  const bool gpu = run.devices.kind == DeviceKind::cuda;
  run.numerics = read_numerics(values, gpu);
  if (auto note = precision_note(run.numerics.precision, gpu)) options.notes.push_back(std::move(*note));
  run.loss_scale = read_loss_scale(values, run.numerics.precision);
  read_files(values, options);
  refuse_combinations(values, trained_features(options));
  read_fault(environment, run);
  go_on_after_restart(options);
}

}  // namespace

TrainOptions parse_train_options(const std::vector<std::string>& arguments, const Environment& environment,
                                 const Machine& machine) {
  TrainOptions options;
  const RawOptions given = gather_options(train_option_table(), arguments, environment, options.notes);
  if (given.count("save-config") != 0) options.config_text = to_toml(train_option_table(), given);
  const OptionValues values(given);
  read_trained_run({values, environment, machine}, options,
                   [&](std::int64_t ranks) { return read_processes(values, environment, ranks); });
  return options;
}

LaunchedRun parse_launch_options(const std::vector<std::string>& arguments, const Environment& environment,
                                 const Machine& machine) {
  LaunchedRun run;
  const OptionValues values(gather_options(train_option_table(), arguments, environment, run.train.notes));
  read_trained_run({values, environment, machine}, run.train, [&](std::int64_t ranks) {
    run.launch = read_launch(values, environment, ranks);
    return processes_of(run.launch);
  });
  return run;
}

std::string train_help() {
  return "pipetrain [train] OPTIONS\n"
         "Train a transformer on a pipeline of stage actors. Without options: a tiny Llama on the text that ships inside.\n"
         "\n"
         "  pipetrain --pp 2 --tp 4 --microbatch 1\n"
         "  pipetrain --model llama3.2-1b --data corpus.jsonl --pp 4 --steps 1000 --save run --metrics run.jsonl\n"
         "\n" +
         format_options(train_option_table()) +
         "\n"
         "Every option can also come from the environment (PIPETRAIN_PP=2) or from the --config file (pp = 2);\n"
         "the command line wins over the environment, the environment over the file, the file over the defaults in [].\n"
         "Results go to stdout, progress and notes to stderr. Exit status: 0 done, 1 the run failed, 2 the command\n"
         "line, a file or data is wrong, 129, 130 or 143 stopped by SIGHUP, SIGINT or SIGTERM: the step is finished, and "
         "saved\n"
         "where --save is given; a second signal stops at once, and so does a step in which no action completes for 20 s (or\n"
         "for --stall-timeout) after the first. SIGHUP and SIGINT stay ignored where they are so from the start (nohup).\n"
         "SIGUSR1 prints what each stage waits for.\n"
         "\n"
         "PIPETRAIN_FAULT=rank:step:kind (throw, exit, hang, nan or oom) makes a rank fail in a step, to see what follows;\n"
         "with kind skip the step leaves the weights as they are, with slow the rank computes slowly from that step on.\n"
         "\n"
         "Other commands, each with its own --help: launch (a run of several processes), simulate (a schedule under a virtual\n"
         "clock), tune (search the fastest layout), doctor (what this machine has), watch (a run in the terminal), compare\n"
         "(two runs), tokenize (text into a file of tokens), generate (text with a model), export (a Hugging Face\n"
         "folder out of a checkpoint), replay (a recorded run).\n";
}

}  // namespace pipetrain
