#include "apps/simulate/simulate_options.hpp"

#include <fmt/format.h>

#include <limits>

#include "actors/training/job/features.hpp"
#include "actors/training/job/train_job.hpp"
#include "apps/options/combined_options.hpp"
#include "apps/options/cut_option.hpp"
#include "apps/options/option_files.hpp"
#include "apps/options/option_values.hpp"
#include "apps/options/plan_file.hpp"
#include "apps/options/shared_options.hpp"
#include "model/config/hf_config_text.hpp"
#include "model/named_model.hpp"
#include "model/parameters/parameters.hpp"
#include "schedules/plan/activation_offload.hpp"

namespace pipetrain {

namespace {

constexpr std::int64_t most_stages = 65536;
constexpr std::int64_t most_search_work = std::int64_t{1} << 18;     // of auto: minutes
constexpr std::int64_t most_runs_work = std::int64_t{1} << 31;       // minutes
constexpr std::int64_t most_following_work = std::int64_t{1} << 20;  // of several consecutive steps: ten seconds
constexpr double most_slots = schedules::most_plan_work;
constexpr std::int64_t usual_jittered_runs = 101;
constexpr double most_jitter = 10;  // beyond, times differ by more than what their sum can tell apart

void read_simulated_schedule(const OptionValues& values, SimulateOptions& options) {
  const ChosenSchedule chosen = read_schedule(values, options.schedule, {"all"});
  options.schedule = chosen.name;
  options.plan = chosen.plan;
  if (values.choice("order") == std::size_t{1}) options.order = schedules::Order::ready;
}

// Stages x chunks x microbatches of the schedule, or of the largest of all of them as long as no --chunks says more.
std::int64_t work_of(const SimulateOptions& options) {
  const auto* info = options.plan ? nullptr : schedules::find_schedule(options.schedule);
  return std::int64_t{options.pp} * options.chunks.value_or(info ? info->default_chunks : 2) * options.microbatches *
         options.slices;
}

// Found before anything of that size is made.
void refuse_long_work(const OptionValues& values, const SimulateOptions& options) {
  const std::int64_t work = work_of(options);
  const bool searches = !options.plan && (options.schedule == "auto" || options.schedule == "solver");
  const std::int64_t most = searches ? most_search_work : schedules::most_plan_work;
  if (work > most)
    values.fail(values.given("microbatches") ? "microbatches" : "pp",
                fmt::format("pp {} x chunks {} x microbatches {} is {}, more than {}, the most that {}; use fewer", options.pp,
                            work / options.pp / options.microbatches, options.microbatches, work, most,
                            searches ? options.schedule + " searches" : "is simulated"));
}

void read_simulated_slices(const OptionValues& values, SimulateOptions& options) {
  const auto of_plan = options.plan ? std::optional(options.plan->slices) : std::nullopt;
  options.slices =
      agreed(values, "slices", 32767, of_plan, fmt::format("the plan {}", values.text("schedule").value_or("")), 1);
  if (values.given("attention") && options.slices == 1)
    values.fail("attention", "applies to slices of a microbatch, and there is one; give --slices too");
}

void read_shape(const OptionValues& values, SimulateOptions& options) {
  std::optional<int> pp, microbatches, chunks;
  std::string source;
  if (options.plan) {
    source = fmt::format("the plan {}", values.text("schedule").value_or(""));
    pp = options.plan->placement.stages(), microbatches = options.plan->microbatches / options.plan->slices,
    chunks = options.plan->placement.chunks();
  }
  options.pp = agreed(values, "pp", most_stages, pp, source, options.profile ? options.profile->pp : options.pp);
  const int usual = options.profile ? options.profile->microbatches : 4 * options.pp;
  options.microbatches =
      agreed(values, "microbatches", std::numeric_limits<std::int32_t>::max() / 2, microbatches, source, usual);
  if (values.given("chunks") || options.plan) options.chunks = agreed(values, "chunks", 1024, chunks, source, 1);
  const schedules::ScheduleInfo* info = options.plan ? nullptr : schedules::find_schedule(options.schedule);
  read_simulated_slices(values, options);
  refuse_long_work(values, options);
  if (info && info->uses_costs && options.chunks.value_or(1) > 2)
    values.fail("chunks", fmt::format("the schedule {} has 1 or 2 chunks on each stage; give one of them", options.schedule));
  if (info && !info->uses_costs && options.chunks) check_chunks(values, *info, *options.chunks);
  options.offload_fraction = values.number("activation-offload-fraction").value_or(0);
}

void read_post_validation(const OptionValues& values, SimulateOptions& options) {
  options.post_validation = values.on_off("post-validation").value_or(false);
  if (options.post_validation && work_of(options) > most_following_work)
    values.fail(
        "post-validation",
        fmt::format(
            "{} stages, chunks and microbatches are more than {}, the most that is simulated over steps that follow each other; use fewer",
            work_of(options), most_following_work));
}

UsedFeatures simulated_features(const OptionValues& values, const SimulateOptions& options) {
  TrainJob job;
  job.layout.schedule = options.schedule;
  job.layout.plan = options.plan;
  job.layout.slices = options.slices;
  job.layout.order = options.order;
  job.offload.activations = options.offload_fraction > 0 || (options.plan && schedules::moves_activations(*options.plan));
  job.zero.stage = options.profile ? options.profile->settings.zero.stage : 0;
  job.post_validation = options.post_validation;
  UsedFeatures used = features_of(job);
  used.device.reset();
  for (const auto& [feature, option] : {std::pair(Feature::zero_times, "gather-weights"),
                                        {Feature::zero_times, "publish-weights"},
                                        {Feature::jitter, "jitter"},
                                        {Feature::profile, "costs"}})
    if (values.given(option)) used.add(feature, option, "");
  if (options.schedule == "solver" && !options.plan) used.add(Feature::solver_bound, "schedule", "solver");
  if (options.plan_out && options.plan_out->extension() == ".csv") used.add(Feature::pytorch_csv, "plan-out", "");
  return used;
}

// Reads --cut for the profile's model. The schedule determines the number of virtual stages, except for "all".
void read_profile_cut(const OptionValues& values, SimulateOptions& options) {
  if (!values.given("cut")) return;
  if (!options.profile)
    values.fail("cut",
                "distributes the blocks of a profile; give --costs FILE too, or the times of stages with --forward T,T,...");
  std::optional<StageCounts> stages;
  const auto* info = schedules::find_schedule(options.schedule);
  if (options.plan || info)
    stages = {options.pp, options.chunks.value_or(info && !info->uses_costs ? info->default_chunks : 1)};
  options.cut = read_cut(values, stages);
  const ModelConfig config = options.profile->measured_model();
  placing_errors(values.places(), [&] { cut_blocks(config, options.cut, static_cast<int>(options.cut.size())); });
}

// Limits of the solver's search. With iterations alone the plan is the same every time.
void read_simulated_solver(const OptionValues& values, SimulateOptions& options) {
  const bool solves = !options.plan && options.schedule == "solver";
  for (const char* name : {"solver-seconds", "solver-iterations"})
    if (values.given(name) && !solves) values.fail(name, "only the schedule solver takes it; add --schedule solver");
  const auto seconds = values.number("solver-seconds");
  options.solver_iterations = values.integer("solver-iterations");
  if (options.solver_iterations) options.solver_seconds = std::numeric_limits<double>::infinity();
  if (seconds) options.solver_seconds = *seconds;
}

void read_times(const OptionValues& values, SimulateOptions& options) {
  for (const OptionSpec& row : step_time_rows())
    if (options.profile && values.given(row.name)) values.fail(row.name, "--costs gives the times already; keep one of them");
  options.times = read_step_times(values, options.pp);
  options.slots = per_stage(values, "memory-slots", options.pp);
  options.jitter = values.number("jitter").value_or(0);
  options.runs = static_cast<int>(values.integer("runs").value_or(options.jitter > 0 ? usual_jittered_runs : 1));
  if (values.given("runs") && options.jitter == 0)
    values.fail("runs", "without --jitter every run is the same; give --jitter S, or leave this out");
  if (const std::int64_t work = work_of(options); work * options.runs > most_runs_work)
    values.fail(
        "runs",
        fmt::format("{} runs x {} stages, chunks and microbatches are more than {}, the most that is simulated; use fewer runs",
                    options.runs, work, most_runs_work));
  options.seed = values.unsigned_integer("seed").value_or(0);
}

// Throws Error(input) if the profile is from another model, or if the model cannot be cut as the times assume.
void check_model(const OptionValues& values, const SimulateOptions& options) {
  const auto name = values.text("model");
  const auto layers = values.integer("layers");
  if (!name && !layers) return;
  ModelConfig config;  // without a name; its number of layers is known
  if (name) config = named_model(*name, layers);
  if (layers) config = first_layers(std::move(config), *layers);
  if (name && options.profile && !options.profile->is_of(config))
    values.fail("costs", fmt::format("a profile from another model: it is of {}, not of {}; profile a run of the same model",
                                     options.profile->model, *name));
  const auto* info = schedules::find_schedule(options.schedule);
  const int chunks = options.chunks.value_or(info ? info->default_chunks : 1);
  const std::int64_t parts = std::int64_t{options.pp} * chunks, blocks = 2 * config.layers;
  if (parts > blocks)
    values.fail(values.given("chunks") ? "chunks" : "pp",
                fmt::format("pp {} x chunks {} is {} virtual stages, more than the {} blocks of {} layers; use fewer",
                            options.pp, chunks, parts, blocks, config.layers));
  if (values.given("chunks") && config.layers % parts != 0)
    values.fail(
        "chunks",
        fmt::format(
            "{} layers do not divide over pp {} x chunks {}, and the times of a stage are shared evenly by its chunks; use other chunks",
            config.layers, options.pp, chunks));
}

void read_outputs(const OptionValues& values, SimulateOptions& options) {
  options.json = values.on_off("json").value_or(false);
  options.svg = output_file(values, "svg");
  options.html = output_file(values, "html");
  options.trace = output_file(values, "trace");
  options.csv = output_file(values, "csv");
  options.plan_out = output_file(values, "plan-out");
  refuse_shared_files(values, {.inputs = {"costs", "config", "schedule", "model", "measured"},
                               .output_files = {"svg", "html", "trace", "csv", "plan-out"},
                               .output_folders = {}});
  if (options.plan_out && options.plan_out->extension() != ".txt" && options.plan_out->extension() != ".csv")
    values.fail("plan-out", "must end in .txt (our format) or .csv (PyTorch's)");
}

OptionRows schedule_rows() {
  constexpr const char* group = "What";
  const SimulateOptions usual;
  return {
      shared_option(group, "pp", {fmt::format("{}; the plan's or the profile's", usual.pp)}),
      shared_option(group, "microbatches", {"4 x pp; the plan's or the profile's", "microbatches of one step"}),
      {group, "schedule", "NAME|all|FILE",
       "a schedule, all of them but solver sorted by time, or a plan: .txt ours, .csv PyTorch's", AnyText{}, usual.schedule},
      shared_option(group, "chunks", {"the schedule's own"}),
      shared_option(group, "slices"),
      {group, "solver-seconds", "T", "longest time in which --schedule solver looks for a better plan than auto's",
       NumberRange::from_to(0.001, 1e6), fmt::format("{}; no limit with solver-iterations", usual.solver_seconds)},
      {group, "solver-iterations", "N", "the same limit in steps of its search, with the same plan every time",
       IntegerRange{1, std::int64_t{1} << 50}, "no limit"},
      {group, "order", "", "keep the plan's order, or run what is ready first", Choices{"planned", "ready"}, "planned"},
      shared_option(
          group, "post-validation",
          {.help =
               "simulate consecutive steps, each begun before the norm of the one before is known, as in train; and without that"}),
      shared_option(
          group, "activation-offload-fraction",
          {"none; the plan's own moves",
           "move this much of each stage's microbatches out of the device until their backward (P, G), as in train --offload activations"}),
  };
}

OptionRows measured_rows() {
  constexpr const char* group = "Costs";
  return {
      {group, "costs", "FILE", "measured times instead: the --profile of a real run"},
      shared_option(
          group, "cut",
          {"the profile's; of another pp or chunks, by cost",
           "with costs: attention and MLP blocks of each virtual stage, as in train --cut; they are the profile's blocks"}),
      {group, "memory-slots", "N",
       "microbatches that a stage can hold from F to B or W, also one per stage: the limit of auto and solver; schedules that hold more are marked",
       NumberRange::from_to(1, most_slots), "no limit"},
      {group, "jitter", "S", "lognormal relative deviation of every action's time", NumberRange::from_to(0, most_jitter), "0"},
      {group, "runs", "N", "simulations with jitter; what is shown is the run of median time", IntegerRange{1, 1'000'000},
       fmt::format("{} with jitter", usual_jittered_runs)},
      shared_option(group, "seed", {.help = "seed of the jitter, of the solver's search and of failures"}),
      {group, "model", "NAME|DIR|FILE",
       "check that the costs are of this model, and that it has blocks for every virtual stage"},
      shared_option(group, "layers"),
  };
}

}  // namespace

const OptionRows& simulate_option_table() {
  static const OptionRows table = joined_rows({
      schedule_rows(),
      step_time_rows(),
      measured_rows(),
      failure_rows(),
      {{"Output", "json", "", "print an array with one object per schedule instead of tables", OnOff{}, "off"}},
      timeline_options("; with all: of the fastest, as in all files"),
      {{"Output", "plan-out", "FILE", "the plan: .txt in our format, .csv in PyTorch's"}},
      general_options(),
  });
  return table;
}

SimulateOptions parse_simulate_options(const std::vector<std::string>& arguments, const Environment& environment) {
  SimulateOptions options;
  const OptionValues values(simulate_option_table(),
                            gather_options(simulate_option_table(), arguments, environment, options.notes));
  read_simulated_schedule(values, options);
  if (const auto costs = values.text("costs")) {
    check_input_file(values, "costs");
    options.profile = read_profile(*costs);
  }
  read_shape(values, options);
  read_post_validation(values, options);
  read_profile_cut(values, options);
  read_simulated_solver(values, options);
  read_times(values, options);
  options.failures = read_failures(values, options.pp, options.profile.has_value());
  placing_errors(values.places(), [&] { check_model(values, options); });
  read_outputs(values, options);
  refuse_combinations(values, simulated_features(values, options));
  return options;
}

std::string simulate_help() {
  return "pipetrain simulate OPTIONS\n"
         "Run a schedule under a virtual clock, with the same protocol as a real run: how long a step takes, where it waits and\n"
         "what each stage holds.\n"
         "\n"
         "  pipetrain simulate --pp 4 --microbatches 8 --schedule 1f1b\n"
         "  pipetrain simulate --pp 8 --microbatches 32 --schedule all --forward 10 --input-grad 11 --weight-grad 8\n"
         "  pipetrain simulate --pp 8 --microbatches 16 --schedule solver --memory-slots 4 --solver-seconds 30 --plan-out p.txt\n"
         "  pipetrain simulate --schedule zb-h1 --costs profile.json --html timeline.html\n"
         "  pipetrain simulate --pp 16 --microbatches 64 --failures --step-time 12\n"
         "\n" +
         format_options(simulate_option_table()) +
         "\n"
         "Options can also come from the environment (PIPETRAIN_PP=2) or from the --config file. The bubble is the share of all\n"
         "stages' time from first start to last end in which they run nothing; the span bubble is the largest\n"
         "share that one stage waits between its own first start and last end. Ideal is the time of the slowest\n"
         "stage's work without any waiting, microbatches x (F + I + W); idle is what a stage waits in the whole step: the\n"
         "step's time less its own work.\n"
         "\n"
         "Limits: pp x chunks x microbatches up to 16,777,216 (262,144 for auto and solver), with --jitter times the runs up to\n"
         "2,147,483,648. Times, bytes and bandwidths other than 0 are from 1e-100 to 1e100.\n";
}

}  // namespace pipetrain
