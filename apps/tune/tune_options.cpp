#include "apps/tune/tune_options.hpp"

#include <fmt/format.h>

#include <limits>

#include "actors/training/job/adapter_settings.hpp"
#include "actors/training/job/further_settings.hpp"
#include "actors/training/run/base_form.hpp"
#include "apps/options/combined_options.hpp"
#include "apps/options/cut_option.hpp"
#include "apps/options/numerics_options.hpp"
#include "apps/options/offload_options.hpp"
#include "apps/options/option_files.hpp"
#include "apps/options/option_values.hpp"
#include "apps/options/shared_options.hpp"
#include "apps/tune/usual_devices.hpp"
#include "core/device.hpp"
#include "model/config/attention_limits.hpp"
#include "model/fp8_weights.hpp"
#include "model/named_model.hpp"
#include "model/optimizer/optimizer.hpp"
#include "model/weights/stored_model.hpp"
#include "tuning/profiled_scales.hpp"

namespace pipetrain {

namespace {

constexpr std::int64_t most_tuned_devices = 65536;
constexpr double bytes_per_gib = std::int64_t{1} << 30;
constexpr double usual_cut_seconds = 10;
// The speedup of fp8 products over those in 16 bits, with one scale per tensor and with block scales. The time for rounding is
// not included.
constexpr double usual_fp8_factor = 1.8, usual_blocks_factor = 1.4;

void read_tuned_model(const OptionValues& values, TuneOptions& options) {
  options.model = values.text("model").value_or(options.model);
  options.layers_given = values.given("layers");
  ModelConfig& config = options.request.config = named_model(options.model, values.integer("layers"));
  options.adapter.rank = values.integer("lora-rank").value_or(0);
  options.adapter.targets = values.text("lora-targets").value_or(options.adapter.targets);
  placing_errors(values.places(), [&] {
    set_further_prediction(options.model, values.number("mtp-loss").value_or(0), config);
    set_adapter(options.adapter, config);
  });
  options.request.sequence = values.integer("seq-len").value_or(config.max_positions);
  if (options.request.sequence > config.max_positions)
    values.fail("seq-len",
                fmt::format("the model {} has {} positions; give as many or fewer", options.model, config.max_positions));
}

int read_hosts(const OptionValues& values, int devices, int usual) {
  const auto hosts = static_cast<int>(values.integer("hosts").value_or(usual));
  if (devices % hosts != 0) values.fail("hosts", fmt::format("do not share {} devices evenly; each host has as many", devices));
  for (const char* name : {"host-bandwidth", "host-latency"})
    if (hosts == 1 && values.given(name))
      values.fail(name, "applies to links between hosts, and there is one host; give --hosts too");
  return hosts;
}

void check_fp8(const OptionValues& values, const LayoutRequest& request) {
  if (!request.precision.fp8_products) {
    if (values.given("fp8-tflops")) values.fail("fp8-tflops", "applies to --precision fp8; add that, or leave it out");
    return;
  }
  if (const auto misfit = fp8_misfit(request.config, 1))
    values.fail("precision", fmt::format("the model's {} is {}, and products in 8 bits need multiples of {}; plan in bf16",
                                         misfit->what, misfit->size, fp8_multiple));
}

Offload read_offloading(const OptionValues& values) {
  Offload offload;
  read_offload(values, offload);
  if (const auto share = values.number("optimizer-offload-fraction")) offload.optimizer_fraction = *share;
  if (values.given("offload-bandwidth") && !offload.any())
    values.fail("offload-bandwidth", "applies to --offload; give that too, or leave it out");
  return offload;
}

// Returns the speed of a device of the request's kind, in its precision, and of the links.
DeviceSpeed read_speed(const OptionValues& values, const UsualDevices& usual, const LayoutRequest& request) {
  DeviceSpeed speed = request.speed;
  const auto read = [&](const char* name, double unit, double otherwise) {
    const auto given = values.number(name);
    return given ? *given * unit : otherwise;
  };
  // On a CPU fp16 products are fp32's, widened.
  const bool half =
      request.device == DeviceKind::cuda ? request.precision != Precision::fp32() : request.precision == Precision::bf16();
  const double flops = half ? usual.bf16_flops.value_or(usual.fp32_flops) : usual.fp32_flops;
  speed.memory_bytes = read("memory", bytes_per_gib, usual.memory_bytes);
  speed.flops = read("tflops", 1e12, flops);
  speed.fp8_flops =
      read("fp8-tflops", 1e12, (request.precision.fp8_blockwise ? usual_blocks_factor : usual_fp8_factor) * speed.flops);
  speed.link_rate = read("bandwidth", 1e9, usual.link_rate);
  speed.offload_rate = read("offload-bandwidth", 1e9, speed.offload_rate);
  speed.memory_rate = read("memory-bandwidth", 1e9, usual.memory_rate);
  speed.latency = read("latency", 1e-6, usual.latency);
  speed.block_overhead = read("block-overhead", 1e-6, usual.block_overhead);
  speed.host_link_rate = read("host-bandwidth", 1e9, usual.host_link_rate);
  speed.host_latency = read("host-latency", 1e-6, usual.host_latency);
  return speed;
}

void read_devices(const OptionValues& values, TuneOptions& options) {
  const UsualDevices usual = usual_devices(values, options.notes);
  auto& request = options.request;
  const auto devices = values.integer("devices");
  if (!devices && !usual.devices) values.fail("devices", "no GPU is visible to count; say how many devices to plan for");
  request.devices = devices ? static_cast<int>(*devices) : *usual.devices;
  const auto kind = values.choice("device").value_or(0);
  request.device = kind == 0 ? usual.device : kind == 1 ? DeviceKind::cpu : DeviceKind::cuda;
  const bool gpu = request.device == DeviceKind::cuda;
  if (values.given("measured") && request.device != usual.device)
    values.fail("device", fmt::format("{} was measured on the other kind of device; keep one of them",
                                      values.text("measured").value_or("")));
  const bool bf16_by_default = gpu && computes_heads(request.config, request.device, DType::bf16);
  if (gpu && !bf16_by_default && !values.given("precision"))
    options.notes.push_back(
        fmt::format("planned in fp32: attention in bf16 on GPUs has no heads of size {}", request.config.head_dim));
  request.precision = read_fp8_recipe(values, read_precision(values, bf16_by_default ? Precision::bf16() : Precision::fp32()));
  check_fp8(values, request);
  if (const auto choice = values.choice("optimizer")) request.optimizer = default_settings(optimizer_names()[*choice]);
  request.compression = read_compression(values);
  request.recompute = read_recompute(values);
  request.recompute_layers = read_recompute_layers(values, request.recompute);
  if (const auto zero = values.integer("zero")) request.zero = static_cast<int>(*zero);
  request.offload = read_offloading(values);
  request.most_tp = static_cast<int>(values.integer("max-tp").value_or(request.most_tp));
  request.global_batch = values.integer("global-batch").value_or(4 * std::int64_t{request.devices});
  request.speed = read_speed(values, usual, request);
  request.hosts = read_hosts(values, request.devices, usual.hosts);
}

// After the precision, because frozen matrices in the type of products need no form of their own.
void read_base_form(const OptionValues& values, TuneOptions& options) {
  ModelSettings model;
  model.name = options.model;
  model.load_weights = names_stored_model(options.model);
  if (const auto choice = values.choice("base-precision")) options.base_precision = static_cast<BasePrecision>(*choice);
  model.base_precision = options.base_precision;
  placing_errors(values.places(), [&] { set_base_form(model, options.request.precision.compute, options.request.config); });
}

void read_cp(const OptionValues& values, LayoutRequest& request) {
  request.cp = static_cast<int>(values.integer("cp").value_or(1));
  if (request.devices % request.cp != 0)
    values.fail("cp", fmt::format("does not divide {} devices, and every layout uses them all; give another", request.devices));
  if (request.cp > 1 && request.sequence % (2 * request.cp) != 0)
    values.fail(
        "cp",
        fmt::format("sequences of {} tokens cannot be cut into 2 x {} equal chunks; give a --seq-len that is a multiple of {}",
                    request.sequence, request.cp, 2 * request.cp));
}

// Times of blocks that a run measured.
void read_costs(const OptionValues& values, LayoutRequest& request) {
  const auto file = values.text("costs");
  if (!file) return;
  check_input_file(values, "costs");
  placing_errors(values.places(), [&] { request.scales = profiled_scales(request, read_profile(*file)); });
}

// Reads the folder of --plans, which must exist or be one that can be made in an existing folder.
void read_plans(const OptionValues& values, TuneOptions& options) {
  const auto folder = values.text("plans");
  if (!folder) return;
  std::error_code ignored;
  const std::filesystem::path path = *folder, parent = std::filesystem::absolute(path, ignored).parent_path();
  if (std::filesystem::exists(path, ignored) ? !std::filesystem::is_directory(path, ignored)
                                             : !std::filesystem::is_directory(parent, ignored))
    values.fail("plans", "is no folder and cannot be made one; give another");
  refuse_shared_files(values,
                      {.inputs = {"model", "measured", "costs", "config"}, .output_files = {}, .output_folders = {"plans"}});
  options.plans = path;
  options.request.with_auto = true;
}

void read_tuned_solver(const OptionValues& values, TuneOptions& options) {
  const auto seconds = values.number("solver-seconds");
  if (!seconds) return;
  if (!options.plans) values.fail("solver-seconds", "its plans need a folder; add --plans DIR");
  options.request.solver_seconds = *seconds;
}

// --cut: by-cost, search, or one for all layouts.
void read_cuts(const OptionValues& values, LayoutRequest& request) {
  if (const auto pp = values.integer("pp")) request.pp = static_cast<int>(*pp);
  if (request.pp && request.devices % *request.pp != 0)
    values.fail("pp", fmt::format("does not divide {} devices, and every layout uses them all; give another", request.devices));
  const std::string word = values.text("cut").value_or("by-cost");
  const bool searched = word == "search";
  for (const char* name : {"cut-seconds", "cut-steps"})
    if (values.given(name) && !searched) values.fail(name, "applies to a search of cuts; add --cut search, or leave it out");
  if (searched) {
    CutLimits limits;
    const auto cuts = values.integer("cut-steps");
    const auto seconds = values.number("cut-seconds");
    if (!cuts) limits.seconds = usual_cut_seconds;
    if (cuts) limits.cuts = *cuts;
    if (seconds) limits.seconds = *seconds;
    request.search_cuts = limits;
  } else if (word != "by-cost") {
    request.cut = read_cut(values, std::nullopt);
    cut_blocks(request.config, request.cut, static_cast<int>(request.cut.size()));
    if (request.pp && std::ssize(request.cut) % *request.pp != 0)
      values.fail("cut", fmt::format("is of {} virtual stages, no multiple of --pp {}; give pp x chunks numbers",
                                     request.cut.size(), *request.pp));
  }
}

NumberRange in_units(const DeviceRange& range, double unit) {
  return NumberRange::from_to(range.least / unit, range.most / unit);
}

OptionRows batch_rows() {
  constexpr const char* group = "Model and batch";
  return {
      shared_option(group, "model",
                    {.help = "a preset, a Hugging Face folder (its config.json is enough) or a model file of llm.c"}),
      shared_option(group, "layers"),
      shared_option(group, "seq-len", {"the model's most", "tokens of one sequence"}),
      shared_option(group, "mtp-loss"),
      shared_option(group, "lora-rank"),
      shared_option(group, "lora-targets"),
      shared_option(group, "base-precision"),
      {group, "global-batch", "N", "sequences of one step, the same for every layout",
       IntegerRange{1, std::numeric_limits<std::int32_t>::max()}, "4 x devices"},
  };
}

OptionRows run_rows() {
  constexpr const char* group = "Devices";
  return {
      {group, "measured", "FILE", "rates that doctor --measure wrote, for all options below that are not given"},
      {group, "costs", "FILE",
       "the --profile of a run of this model: all times are scaled by its measured times over those from the numbers below"},
      {group, "devices", "N", "number of devices; every layout uses them all", IntegerRange{1, most_tuned_devices},
       "those measured, else the visible GPUs"},
      shared_option(group, "device", {.help = "kind of the devices; auto: those measured, else GPUs"}),
      shared_option(group, "precision", {"fp32 on CPU, bf16 on GPU where the model's heads allow it"}),
      shared_option(group, "fp8-recipe"),
      shared_option(group, "recompute", {"for each layout the least that fits"}),
      shared_option(group, "recompute-num-layers", {"all; where --recompute is not given, as few as fit"}),
      shared_option(group, "optimizer"),
      shared_option(group, "zero", {"for each layout the fastest that fits"}),
      shared_option(group, "compress-gradients"),
      shared_option(group, "compress-hosts"),
      shared_option(group, "compress-weights"),
      shared_option(
          group, "post-validation",
          {.help =
               "begin steps before the gradient norm of the one before is known, as in train; times are of consecutive steps"}),
      shared_option(
          group, "offload",
          {.help = "data that may be kept in the host's memory, as in train; activations where a layout does not fit without"}),
      shared_option(group, "optimizer-offload-fraction"),
  };
}

OptionRows speed_rows() {
  constexpr const char* group = "Devices";
  const UsualDevices usual;
  const auto in = [](double value, double unit) { return fmt::format("{:g}", value / unit); };
  const auto microseconds = NumberRange::from_to(0, 1e9);
  const auto rates = in_units(rate_range, 1e9), flops = in_units(flops_range, 1e12);
  return {
      {group, "offload-bandwidth", "GB/S", "rate between a device and its host's memory, each way", rates,
       in(DeviceSpeed{}.offload_rate, 1e9)},
      {group, "memory", "GIB", "memory of each device that a run may use", in_units(memory_range, bytes_per_gib),
       "free memory of the first visible GPU, else " + in(usual.memory_bytes, bytes_per_gib)},
      {group, "tflops", "X", "rate of each device in matrix products, in the precision of the run (fp8: in bf16)", flops,
       in(*usual.bf16_flops, 1e12) + "; " + in(usual.fp32_flops, 1e12) + " in fp32"},
      {group, "fp8-tflops", "X", "with --precision fp8: rate of each device in the blocks' products in 8 bits", flops,
       fmt::format("{} x tflops; {} with blockwise", usual_fp8_factor, usual_blocks_factor)},
      {group, "memory-bandwidth", "GB/S", "rate of each device's memory", rates, in(usual.memory_rate, 1e9)},
      {group, "bandwidth", "GB/S", "rate from one device to another", rates, in(usual.link_rate, 1e9)},
      {group, "latency", "US", "latency of a message between devices, in microseconds", microseconds, in(usual.latency, 1e-6)},
      {group, "hosts", "N", "number of hosts, with equally many devices; tensor-parallel ranks stay on one host",
       IntegerRange{1, most_tuned_devices}, fmt::format("those measured, else {}", usual.hosts)},
      {group, "host-bandwidth", "GB/S", "rate from one device to another of another host, all at once", rates,
       in(usual.host_link_rate, 1e9)},
      {group, "host-latency", "US", "latency of a message between devices of different hosts", microseconds,
       in(usual.host_latency, 1e-6)},
      {group, "block-overhead", "US", "time that each pass of an attention or MLP block takes whatever its size", microseconds,
       in(usual.block_overhead, 1e-6)},
      shared_option(group, "pp", {"all that fit", "only layouts with this many stages"}),
      shared_option(group, "cp", {.help = "devices that share each sequence, in all layouts, as in train"}),
      {group, "max-tp", "N", "largest tensor-parallel size, such as the devices of one host",
       IntegerRange{1, most_tuned_devices}, fmt::format("{}", LayoutRequest{}.most_tp)},
  };
}

OptionRows output_rows() {
  constexpr const char* group = "Output";
  const auto seconds = NumberRange::from_to(0.001, 1e6);
  return {
      {group, "count", "N", "number of the fastest layouts to print", IntegerRange{1, 1000},
       fmt::format("{}", TuneOptions{}.count)},
      {group, "plans", "DIR",
       "also search plans of auto, made for these costs and memory, and write those of the printed layouts to this folder"},
      {group, "solver-seconds", "T", "with --plans: improve each fastest layout's order for this long, and show its gap",
       seconds, "off"},
      {group, "cut", "by-cost|search|N,N,...",
       "how layouts cut the model into virtual stages: by cost; searched together with placement and schedule for the fastest layouts; or these blocks in all layouts, as in train --cut",
       AnyText{}, "by-cost"},
      {group, "cut-seconds", "T", "with --cut search: longest time of the search", seconds,
       fmt::format("{}; no limit with cut-steps", usual_cut_seconds)},
      {group, "cut-steps", "N", "the same limit in cuts that are looked at, with the same layouts every time",
       IntegerRange{1, std::int64_t{1} << 50}, "no limit"},
      {group, "json", "", "print an array with one object per layout", OnOff{}, "off"},
  };
}

}  // namespace

const OptionRows& tune_option_table() {
  static const OptionRows table = joined_rows({batch_rows(), run_rows(), speed_rows(), output_rows(), general_options()});
  return table;
}

TuneOptions parse_tune_options(const std::vector<std::string>& arguments, const Environment& environment) {
  TuneOptions options;
  const OptionValues values(tune_option_table(), gather_options(tune_option_table(), arguments, environment, options.notes));
  placing_errors(values.places(), [&] { read_tuned_model(values, options); });
  read_devices(values, options);
  read_base_form(values, options);
  read_cp(values, options.request);
  read_costs(values, options.request);
  options.count = static_cast<int>(values.integer("count").value_or(options.count));
  options.json = values.on_off("json").value_or(false);
  placing_errors(values.places(), [&] { read_cuts(values, options.request); });
  read_plans(values, options);
  read_tuned_solver(values, options);
  options.request.post_validation = values.on_off("post-validation").value_or(false);
  UsedFeatures used = features_of(options.request);
  if (options.request.offload.any()) used.add(Feature::host_offload, "offload", to_string(options.request.offload));
  refuse_combinations(values, used);
  return options;
}

std::string tune_help() {
  return "pipetrain tune OPTIONS\n"
         "Search the fastest layouts of a model over devices: pp x tp x dp x chunks x microbatch x schedule x recompute, each\n"
         "simulated. Layouts that do not fit the memory are dropped; a run counts memory in the same way (--dry-run). Times\n"
         "follow from the rates of the devices below, so give those of yours, or measure them.\n"
         "\n"
         "  pipetrain tune --model llama2-7b --devices 8 --memory 140 --tflops 650\n"
         "  pipetrain tune --model llama3-8b --devices 8 --pp 8 --max-tp 1 --cut search\n"
         "  pipetrain tune --model llama2-70b --devices 32 --hosts 4 --host-bandwidth 50\n"
         "  pipetrain doctor --measure devices.json && pipetrain tune --model llama3.2-1b --measured devices.json --plans plans\n"
         "\n" +
         format_options(tune_option_table()) +
         "\n"
         "Options can also come from the environment (PIPETRAIN_DEVICES=8) or from the --config file.\n"
         "\n"
         "Limits: layouts of more than 4,194,304 pp x chunks x microbatches (65,536 with --post-validation) are left out.\n";
}

}  // namespace pipetrain
