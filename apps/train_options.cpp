#include "apps/train_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "apps/batch_sizes.hpp"
#include "apps/counted.hpp"
#include "apps/device_choice.hpp"
#include "apps/option_files.hpp"
#include "apps/option_values.hpp"
#include "apps/plan_file.hpp"
#include "core/error.hpp"
#include "schedules/builders.hpp"

namespace pipetrain {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t any_count = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t most_devices = 65536;
constexpr OptionValues::Range below_one{.minimum = 0, .has_maximum = true, .maximum = 1};

// Whether an option that is not built asks for what happens without it, such as --zero 0.
bool asks_for_default(const OptionValues& values, const OptionSpec& spec) {
  const std::string word = values.text(spec.name).value_or("");
  if (spec.default_value == "off") return word_of_switch(word) == false || word == "none";
  double number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return spec.default_value == "0" && error == std::errc() && end == word.data() + word.size() && number == 0;
}

void refuse_unbuilt(const OptionValues& values) {
  for (const OptionSpec& spec : train_option_table())
    if (!spec.built && values.given(spec.name) && !asks_for_default(values, spec))
      values.fail(spec.name, "this option is not built yet; leave it out");
}

void read_model_and_data(const OptionValues& values, TrainOptions& options) {
  options.model = values.text("model").value_or(options.model);
  std::error_code ignored;
  const bool folder = fs::is_directory(options.model, ignored);
  if (!folder && options.model.find('/') != std::string::npos)
    values.fail("model", "there is no such folder; give a Hugging Face folder or a preset's name");
  const auto init = values.choice("init", {"hf", "random"});
  if (init == std::size_t{0} && !folder)
    values.fail("init",
                fmt::format("hf loads the weights of a folder, but the model {} is no folder; use random", options.model));
  options.load_weights = folder && init.value_or(0) == 0;
  options.no_dropout = values.given("dropout");  // another value than 0 is refused
  options.layers = values.integer("layers", 1, 1'000'000);
  for (const std::string& input : values.list("data")) options.data.push_back(parse_data_input(input));
  options.seq_len = values.integer("seq-len", 1, std::numeric_limits<std::int32_t>::max());
  options.shuffle = values.on_off("shuffle").value_or(options.shuffle);
  options.seed = values.unsigned_integer("seed").value_or(options.seed);
}

// Before the sizes, which a plan from a file gives.
void read_schedule_name(const OptionValues& values, TrainOptions& options) {
  options.schedule = values.text("schedule").value_or(options.schedule);
  if (schedules::find_schedule(options.schedule)) return;
  if (!names_plan_file(options.schedule)) fail_unknown_schedule(values, options.schedule, schedule_names());
  check_input_file(values, "schedule");
  options.plan_file = options.schedule;
  options.plan = std::make_shared<const schedules::Plan>(read_plan_file(options.plan_file));
  options.schedule = options.plan->schedule;
}

std::string plan_source(const TrainOptions& options) { return fmt::format("the plan {}", options.plan_file); }

void read_layout(const OptionValues& values, TrainOptions& options) {
  const auto size = [&](const char* name) { return static_cast<int>(values.integer(name, 1, most_devices).value_or(1)); };
  options.pp =
      options.plan ? agreed(values, "pp", most_devices, options.plan->placement.stages(), plan_source(options), 1) : size("pp");
  options.tp = size("tp");
  options.dp = size("dp");
  if (std::int64_t{options.pp} * options.tp > most_devices || std::int64_t{options.pp} * options.tp * options.dp > most_devices)
    values.fail(values.given("pp") ? "pp" : "tp",
                fmt::format("pp {} x tp {} x dp {} is more than {} devices; use smaller sizes", options.pp, options.tp,
                            options.dp, most_devices));
  options.sequence_parallel = values.on_off("sequence-parallel").value_or(true) && options.tp > 1;
  if (options.plan)
    agreed(values, "microbatches", std::numeric_limits<std::int32_t>::max(), options.plan->microbatches, plan_source(options),
           1);
  options.batch = resolve_batch(values, options.pp, options.dp,
                                options.plan ? std::optional<std::int64_t>(options.plan->microbatches) : std::nullopt);
}

void read_chunks_and_order(const OptionValues& values, TrainOptions& options) {
  const schedules::ScheduleInfo* info = options.plan ? nullptr : schedules::find_schedule(options.schedule);
  options.chunks = options.plan ? agreed(values, "chunks", 32767, options.plan->placement.chunks(), plan_source(options), 1)
                                : static_cast<int>(values.integer("chunks", 1, 1024).value_or(info->default_chunks));
  if (info && options.chunks != info->default_chunks && !info->chunks_can_vary)
    values.fail("chunks", fmt::format("the schedule {} has {} {} on each stage; leave it out", options.schedule,
                                      info->default_chunks, info->default_chunks == 1 ? "chunk" : "chunks"));
  const bool ready = values.choice("order", {"planned", "ready"}) == std::size_t{1};
  if (ready && !(info ? info->has_ready_rule : options.plan->ready_rule != schedules::ReadyRule::none))
    values.fail("order", fmt::format("the schedule {} has no rule for what is ready; use planned", options.schedule));
  options.order = ready ? schedules::Order::ready : schedules::Order::planned;
}

void read_length_and_optimizer(const OptionValues& values, TrainOptions& options) {
  options.steps = values.integer("steps", 1, any_count);
  options.epochs = values.integer("epochs", 1, any_count);
  options.lr = values.number("lr", {}).value_or(options.lr);
  options.min_lr = values.number("min-lr", {}).value_or(options.min_lr);
  if (options.min_lr > options.lr)
    values.fail("min-lr", fmt::format("must not be above the peak, --lr {}; lower it or raise --lr", options.lr));
  const auto kind = values.choice("lr-schedule", {"constant", "linear", "cosine"});
  constexpr LearningRate::Kind kinds[] = {LearningRate::Kind::constant, LearningRate::Kind::linear, LearningRate::Kind::cosine};
  if (kind) options.lr_schedule = kinds[*kind];
  options.warmup_steps = values.integer("warmup-steps", 0, any_count).value_or(0);
  options.warmup_ratio = values.number("warmup-ratio", {.minimum = 0, .has_maximum = true, .maximum = 1, .with_maximum = true});
  if (options.warmup_ratio == 0.0) options.warmup_ratio.reset();
  if (options.warmup_ratio && options.warmup_steps > 0)
    values.fail("warmup-ratio", fmt::format("--warmup-steps {} is given too; keep one of them", options.warmup_steps));
  options.beta1 = values.number("beta1", below_one).value_or(options.beta1);
  options.beta2 = values.number("beta2", below_one).value_or(options.beta2);
  options.adam_eps = values.number("adam-eps", {0, true}).value_or(options.adam_eps);
  options.weight_decay = values.number("weight-decay", {}).value_or(options.weight_decay);
  options.clip_grad = values.number("clip-grad", {}).value_or(options.clip_grad);
}

void read_numbers(const OptionValues& values, const Machine& machine, TrainOptions& options) {
  choose_devices(values, machine, options);
  const bool gpu = options.device == DeviceKind::cuda;
  if (values.text("precision") == "fp16") values.fail("precision", "fp16 is not built yet; use fp32, or bf16 on GPUs");
  const std::size_t precision = values.choice("precision", {"fp32", "bf16"}).value_or(gpu ? 1 : 0);
  options.precision = precision == 1 ? Precision::bf16() : Precision::fp32();
  if (options.precision == Precision::bf16() && !gpu) values.fail("precision", "bf16 is not built yet on the CPU; use fp32");
  constexpr Recompute modes[] = {Recompute::none, Recompute::selective, Recompute::full};
  options.recompute = modes[values.choice("recompute", {"none", "selective", "full"}).value_or(0)];
  options.deterministic = values.on_off("deterministic").value_or(options.precision == Precision::fp32() || !gpu);
}

void read_files(const OptionValues& values, TrainOptions& options) {
  options.save = output_folder(values, "save");
  options.save_interval = values.integer("save-interval", 1, any_count);
  options.save_keep = values.integer("save-keep", 1, any_count);
  options.resume = values.on_off("resume").value_or(false);
  for (const char* name : {"save-interval", "save-keep", "resume"})
    if (values.given(name) && !options.save && (name != std::string("resume") || options.resume))
      values.fail(name, "needs --save DIR, the folder of the checkpoints; give it");
  if (const auto load = values.text("load")) {
    std::error_code ignored;
    if (!fs::is_directory(*load, ignored)) values.fail("load", "there is no such checkpoint folder; check the path");
    if (options.resume) values.fail("load", "--resume is given too; keep one of them");
    options.load = *load;
  }
  options.metrics = output_file(values, "metrics", Written::in_place);
  options.trace = output_file(values, "trace");
  options.profile = output_file(values, "profile");
  refuse_shared_files(values, {.inputs = {"model", "data", "load", "tokenizer", "config", "schedule"},
                               .output_files = {"metrics", "trace", "profile"},
                               .output_folders = {"save"}});
  options.log_interval = values.integer("log-interval", 1, any_count).value_or(options.log_interval);
  options.dry_run = values.on_off("dry-run").value_or(false);
  options.stall_timeout = values.integer("stall-timeout", 0, 1'000'000).value_or(options.stall_timeout);
}

void read_fault(const Environment& environment, TrainOptions& options) {
  const auto variable = environment.find("PIPETRAIN_FAULT");
  if (variable == environment.end() || variable->second.empty()) return;
  options.fault = parse_fault(variable->second);
  if (options.fault->rank >= options.device_count())
    throw Error(
        ErrorKind::input,
        fmt::format("PIPETRAIN_FAULT={}: there is no rank {}; pp {} x tp {} x dp {} has {}, counted from 0", variable->second,
                    options.fault->rank, options.pp, options.tp, options.dp, counted(options.device_count(), "rank")));
}

}  // namespace

LearningRate TrainOptions::learning_rate(std::int64_t total_steps) const {
  const std::int64_t warmup =
      warmup_ratio ? static_cast<std::int64_t>(std::ceil(*warmup_ratio * static_cast<double>(total_steps))) : warmup_steps;
  return {lr_schedule, lr, min_lr, warmup, total_steps};
}

TrainOptions parse_train_options(const std::vector<std::string>& arguments, const Environment& environment,
                                 const Machine& machine) {
  TrainOptions options;
  const OptionValues values(gather_options(train_option_table(), arguments, environment, options.notes));
  options.places = values.places();
  refuse_unbuilt(values);
  placing_errors(options.places, [&] { read_model_and_data(values, options); });
  read_schedule_name(values, options);
  read_layout(values, options);
  read_chunks_and_order(values, options);
  read_length_and_optimizer(values, options);
  read_numbers(values, machine, options);
  read_files(values, options);
  read_fault(environment, options);
  return options;
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
         "with kind skip the step leaves the weights as they are.\n"
         "\n"
         "Other commands, each with its own --help: simulate (a schedule under a virtual clock), tune (search the fastest\n"
         "layout), doctor (what this machine has). launch, tokenize, generate and export are not built yet.\n";
}

}  // namespace pipetrain
