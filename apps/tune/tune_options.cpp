#include "apps/tune/tune_options.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <limits>

#include "apps/options/combined_options.hpp"
#include "apps/options/cut_option.hpp"
#include "apps/options/numerics_options.hpp"
#include "apps/options/offload_options.hpp"
#include "apps/options/optimizer_options.hpp"
#include "apps/options/option_files.hpp"
#include "apps/options/option_values.hpp"
#include "core/device.hpp"
#include "core/error.hpp"
#include "model/config/head_size.hpp"
#include "model/fp8_weights.hpp"
#include "model/named_model.hpp"
#include "tuning/measured_devices.hpp"
#include "tuning/profiled_scales.hpp"

namespace pipetrain {

namespace {

constexpr std::int64_t most_tuned_devices = 65536;
constexpr double bytes_per_gib = std::int64_t{1} << 30;
constexpr double usual_cut_seconds = 10;
// Of the rate in 16 bits, with one scale a tensor and with scales of blocks: rounding not counted.
constexpr double usual_fp8_factor = 1.8, usual_blocks_factor = 1.4;

void read_tuned_model(const OptionValues& values, TuneOptions& options) {
  options.model = values.text("model").value_or(options.model);
  options.layers_given = values.given("layers");
  const auto& config = options.request.config = named_model(options.model, values.integer("layers", 1, 1'000'000));
  options.request.sequence =
      values.integer("seq-len", 1, std::numeric_limits<std::int32_t>::max()).value_or(config.max_positions);
  if (options.request.sequence > config.max_positions)
    values.fail("seq-len",
                fmt::format("the model {} has {} positions; give as many or fewer", options.model, config.max_positions));
}

// What doctor measured, or usual numbers of a GPU; for the options that are not given.
struct Usual {
  std::optional<int> devices;
  DeviceKind device = DeviceKind::cuda;
  double memory_bytes = 80 * bytes_per_gib, fp32_flops = 50e12, memory_rate = 3000e9, block_overhead = 40e-6;
  std::optional<double> bf16_flops = 400e12;
  double link_rate = 300e9, latency = 15e-6;
  int hosts = 1;
  double host_link_rate = 25e9, host_latency = 30e-6;  // 200 Gbit/s for each GPU
};

Usual usual_numbers(const OptionValues& values, TuneOptions& options) {
  Usual usual;
  if (const auto file = values.text("measured")) {
    check_input_file(values, "measured");
    const MeasuredDevices measured = read_measured_devices(*file);
    usual.hosts = measured.host_count();
    usual.devices = measured.count * usual.hosts;
    if (const auto link = measured.between_hosts()) {
      // One process measured it alone; in a run all devices of a host share it.
      usual.host_link_rate = link->rate / measured.count;
      usual.host_latency = link->latency;
    }
    usual.device = measured.kind;
    usual.memory_bytes = measured.memory_bytes;
    usual.fp32_flops = measured.fp32_flops;
    usual.bf16_flops = measured.bf16_flops;
    usual.memory_rate = measured.memory_rate;
    usual.block_overhead = measured.block_overhead;
    usual.link_rate = measured.link_rate.value_or(usual.link_rate);
    usual.latency = measured.latency.value_or(usual.latency);
    if (!measured.link_rate && !(values.given("bandwidth") && values.given("latency")))
      options.notes.push_back(fmt::format("{} has one device and no link between two: those are taken as {:g} GB/s and {:g} us",
                                          *file, usual.link_rate / 1e9, usual.latency * 1e6));
  } else if (const int gpus = cuda_device_count(); gpus > 0) {
    usual.devices = gpus;
    if (!values.given("memory")) usual.memory_bytes = static_cast<double>(make_cuda_device(0)->memory().free);
  }
  return usual;
}

int read_hosts(const OptionValues& values, int devices, int usual) {
  const auto hosts = static_cast<int>(values.integer("hosts", 1, most_tuned_devices).value_or(usual));
  if (devices % hosts != 0) values.fail("hosts", fmt::format("do not share {} devices evenly; each host has as many", devices));
  for (const char* name : {"host-bandwidth", "host-latency"})
    if (hosts == 1 && values.given(name)) values.fail(name, "is of links between hosts, and there is one; give --hosts too");
  return hosts;
}

void check_fp8(const OptionValues& values, const LayoutRequest& request) {
  if (!request.precision.fp8_products) {
    if (values.given("fp8-tflops")) values.fail("fp8-tflops", "is of --precision fp8; add that, or leave it out");
    return;
  }
  if (const auto misfit = fp8_misfit(request.config, 1))
    values.fail("precision", fmt::format("the model's {} is {}, and products in 8 bits need multiples of {}; plan in bf16",
                                         misfit->what, misfit->size, fp8_multiple));
}

Offload read_offloading(const OptionValues& values) {
  const Offload offload = read_offload(values);
  if (values.given("offload-bandwidth") && !offload.any())
    values.fail("offload-bandwidth", "is of --offload; give that too, or leave it out");
  return offload;
}

// Of a device of that kind and of its links, in what the request computes.
DeviceSpeed read_speed(const OptionValues& values, const Usual& usual, const LayoutRequest& request) {
  DeviceSpeed speed = request.speed;
  const auto read = [&](const char* name, double unit, const DeviceRange& range, double otherwise) {
    const auto given = values.number(name, OptionValues::Range::from_to(range.least / unit, range.most / unit));
    return given ? *given * unit : otherwise;
  };
  // On a CPU fp16 products are fp32's, widened.
  const bool half =
      request.device == DeviceKind::cuda ? request.precision != Precision::fp32() : request.precision == Precision::bf16();
  const double flops = half ? usual.bf16_flops.value_or(usual.fp32_flops) : usual.fp32_flops;
  speed.memory_bytes = read("memory", bytes_per_gib, memory_range, usual.memory_bytes);
  speed.flops = read("tflops", 1e12, flops_range, flops);
  speed.fp8_flops = read("fp8-tflops", 1e12, flops_range,
                         (request.precision.fp8_blockwise ? usual_blocks_factor : usual_fp8_factor) * speed.flops);
  speed.link_rate = read("bandwidth", 1e9, rate_range, usual.link_rate);
  speed.offload_rate = read("offload-bandwidth", 1e9, rate_range, speed.offload_rate);
  speed.memory_rate = read("memory-bandwidth", 1e9, rate_range, usual.memory_rate);
  const auto microseconds = [&](const char* name, double otherwise) {
    const auto given = values.number(name, OptionValues::Range::from_to(0, 1e9));
    return given ? *given * 1e-6 : otherwise;
  };
  speed.latency = microseconds("latency", usual.latency);
  speed.block_overhead = microseconds("block-overhead", usual.block_overhead);
  speed.host_link_rate = read("host-bandwidth", 1e9, rate_range, usual.host_link_rate);
  speed.host_latency = microseconds("host-latency", usual.host_latency);
  return speed;
}

void read_devices(const OptionValues& values, TuneOptions& options) {
  const Usual usual = usual_numbers(values, options);
  auto& request = options.request;
  const auto devices = values.integer("devices", 1, most_tuned_devices);
  if (!devices && !usual.devices) values.fail("devices", "no GPU is visible to count; say how many devices to plan for");
  request.devices = devices ? static_cast<int>(*devices) : *usual.devices;
  const auto kind = values.choice("device", {"auto", "cpu", "cuda"}).value_or(0);
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
  request.optimizer = named_optimizer(values);
  request.recompute = read_recompute(values);
  request.recompute_layers = read_recompute_layers(values, request.recompute);
  if (const auto zero = values.integer("zero", 0, most_zero_stages)) request.zero = static_cast<int>(*zero);
  request.offload = read_offloading(values);
  request.most_tp = static_cast<int>(values.integer("max-tp", 1, most_tuned_devices).value_or(request.most_tp));
  request.global_batch =
      values.integer("global-batch", 1, std::numeric_limits<std::int32_t>::max()).value_or(4 * std::int64_t{request.devices});
  request.speed = read_speed(values, usual, request);
  request.hosts = read_hosts(values, request.devices, usual.hosts);
}

void read_cp(const OptionValues& values, LayoutRequest& request) {
  request.cp = static_cast<int>(values.integer("cp", 1, most_tuned_devices).value_or(1));
  if (request.devices % request.cp != 0)
    values.fail("cp", fmt::format("does not divide {} devices, and every layout uses them all; give another", request.devices));
  if (request.cp > 1 && request.sequence % (2 * request.cp) != 0)
    values.fail("cp", fmt::format("sequences of {} tokens cannot be cut into 2 x {} equal chunks; give a --seq-len that is a "
                                  "multiple of {}",
                                  request.sequence, request.cp, 2 * request.cp));
}

// Times of blocks that a run measured.
void read_costs(const OptionValues& values, LayoutRequest& request) {
  const auto file = values.text("costs");
  if (!file) return;
  check_input_file(values, "costs");
  placing_errors(values.places(), [&] { request.scales = profiled_scales(request, read_profile(*file)); });
}

// A folder that is there or can be made in one that is.
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
  constexpr double longest = 1e6;
  const auto seconds = values.number("solver-seconds", OptionValues::Range::from_to(0.001, longest));
  if (!seconds) return;
  if (!options.plans) values.fail("solver-seconds", "its plans need a folder; add --plans DIR");
  options.request.solver_seconds = *seconds;
}

// --cut: by-cost, search, or one for all layouts.
void read_cuts(const OptionValues& values, LayoutRequest& request) {
  if (const auto pp = values.integer("pp", 1, most_tuned_devices)) request.pp = static_cast<int>(*pp);
  if (request.pp && request.devices % *request.pp != 0)
    values.fail("pp", fmt::format("does not divide {} devices, and every layout uses them all; give another", request.devices));
  const std::string word = values.text("cut").value_or("by-cost");
  const bool searched = word == "search";
  for (const char* name : {"cut-seconds", "cut-steps"})
    if (values.given(name) && !searched) values.fail(name, "is of a search of cuts; add --cut search, or leave it out");
  if (searched) {
    constexpr double longest = 1e6;
    constexpr std::int64_t most_cuts = std::int64_t{1} << 50;
    CutLimits limits;
    const auto cuts = values.integer("cut-steps", 1, most_cuts);
    const auto seconds = values.number("cut-seconds", OptionValues::Range::from_to(0.001, longest));
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

}  // namespace

const std::vector<OptionSpec>& tune_option_table() {
  static const std::vector<OptionSpec> table = {
      {"Model and batch", "model", "NAME|DIR|FILE",
       "a preset, a Hugging Face folder (its config.json is enough) or a model file of llm.c", "tiny"},
      {"Model and batch", "layers", "N", "keep only the first N layers of the model", "all"},
      {"Model and batch", "seq-len", "N", "tokens of one sequence", "the model's most"},
      {"Model and batch", "global-batch", "N", "sequences of one step, the same for every layout", "4 x devices"},

      {"Devices", "measured", "FILE", "take what doctor --measure wrote for all below that is not given", ""},
      {"Devices", "costs", "FILE",
       "the --profile of a run of this model: what its blocks took there, of what the numbers below say, they take everywhere",
       ""},
      {"Devices", "devices", "N", "how many there are; every layout uses them all", "those measured, else the visible GPUs"},
      {"Devices", "device", "auto|cpu|cuda", "what they are; auto: those measured, else GPUs", "auto"},
      {"Devices", "precision", "fp32|bf16|fp16|fp8", "of computation, as of train",
       "fp32 on CPU, bf16 on GPU where the model's heads allow it"},
      {"Devices", "fp8-recipe", "tensorwise|blockwise", "with --precision fp8: what a scale is for, as of train", "tensorwise"},
      {"Devices", "recompute", "none|selective|full", "what the backward computes again, as of train",
       "for each layout the least that fits"},
      {"Devices", "recompute-num-layers", "N", "with --recompute: only the first N layers of each stage, as of train",
       "all; where --recompute is not given, as few as fit"},
      {"Devices", "optimizer", optimizer_choices(), "whose states the devices keep, as of train", OptimizerSettings{}.name},
      {"Devices", "zero", "0|1|2|3", "what the replicas of layouts with dp > 1 divide, as of train",
       "for each layout the fastest that fits"},
      {"Devices", "post-validation", "on|off",
       "begin steps before the gradient norm of the one before is known, as train's; times are of steps that follow each other",
       "off"},
      {"Devices", "offload", "none|optimizer|parameters|gradients|activations",
       "what may live in the host's memory, as of train; activations where a layout does not fit without", "none"},
      {"Devices", "offload-bandwidth", "GB/S", "between a device and its host's memory, each way", "50"},
      {"Devices", "memory", "GIB", "what a run may take of each", "what the first visible GPU has free, else 80"},
      {"Devices", "tflops", "X", "what each sustains in matrix products, in the precision of the run (fp8: in bf16)",
       "400; 50 in fp32"},
      {"Devices", "fp8-tflops", "X", "with --precision fp8: what each sustains in the blocks' products in 8 bits",
       "1.8 x tflops; 1.4 with blockwise"},
      {"Devices", "memory-bandwidth", "GB/S", "of each device's memory", "3000"},
      {"Devices", "bandwidth", "GB/S", "from one device to another", "300"},
      {"Devices", "latency", "US", "of a message between devices, in microseconds", "15"},
      {"Devices", "hosts", "N", "on how many hosts they are, as many on each; tensor-parallel ranks stay on one host",
       "those measured, else 1"},
      {"Devices", "host-bandwidth", "GB/S", "from one device to another of another host, all at once", "25"},
      {"Devices", "host-latency", "US", "of a message between devices of different hosts", "30"},
      {"Devices", "block-overhead", "US", "that each pass of an attention or MLP block takes whatever its size", "40"},
      {"Devices", "pp", "N", "only layouts of so many stages", "all that fit"},
      {"Devices", "cp", "N", "how many devices share each sequence, in all layouts, as of train", "1"},
      {"Devices", "max-tp", "N", "largest tensor-parallel size, such as the devices of one host", "8"},

      {"Output", "count", "N", "how many of the fastest layouts to print", "10"},
      {"Output", "plans", "DIR", "search plans of auto too, made for these costs and memory; those of printed layouts go here",
       ""},
      {"Output", "solver-seconds", "T", "with --plans: improve each fastest layout's order so long, and show its gap", "off"},
      {"Output", "cut", "by-cost|search|N,N,...",
       "how layouts cut the model into virtual stages: by cost; searched together with placement and schedule for the fastest "
       "layouts; or all as these blocks say, as train's --cut",
       "by-cost"},
      {"Output", "cut-seconds", "T", "with --cut search: how long it may take", "10; no limit with cut-steps"},
      {"Output", "cut-steps", "N", "the same in cuts that are looked at: the same layouts every time", "no limit"},
      {"Output", "json", "", "print an array with one object per layout", "off"},

      {"General", "config", "FILE", "options from a TOML or JSON file, by their names here", ""},
      {"General", "help", "", "print this page", ""},
      {"General", "version", "", "print the version", ""},
  };
  return table;
}

TuneOptions parse_tune_options(const std::vector<std::string>& arguments, const Environment& environment) {
  TuneOptions options;
  const OptionValues values(gather_options(tune_option_table(), arguments, environment, options.notes));
  placing_errors(values.places(), [&] { read_tuned_model(values, options); });
  read_devices(values, options);
  read_cp(values, options.request);
  read_costs(values, options.request);
  options.count = static_cast<int>(values.integer("count", 1, 1000).value_or(options.count));
  options.json = values.on_off("json").value_or(false);
  placing_errors(values.places(), [&] { read_cuts(values, options.request); });
  read_plans(values, options);
  read_tuned_solver(values, options);
  options.request.post_validation = values.on_off("post-validation").value_or(false);
  refuse_combinations(values, features_of(options.request));
  return options;
}

std::string tune_help() {
  return "pipetrain tune OPTIONS\n"
         "Search the fastest layouts of a model over devices: pp x tp x dp x chunks x microbatch x schedule x recompute, each\n"
         "simulated. What does not fit the memory is dropped; its use is counted as a run counts it (--dry-run). Times follow\n"
         "from the numbers of the devices below, so give those of yours, or measure them.\n"
         "\n"
         "  pipetrain tune --model llama2-7b --devices 8 --memory 140 --tflops 650\n"
         "  pipetrain tune --model llama3-8b --devices 8 --pp 8 --max-tp 1 --cut search\n"
         "  pipetrain tune --model llama2-70b --devices 32 --hosts 4 --host-bandwidth 50\n"
         "  pipetrain doctor --measure devices.json && pipetrain tune --model llama3.2-1b --measured devices.json --plans "
         "plans\n"
         "\n" +
         format_options(tune_option_table()) +
         "\n"
         "Options can also come from the environment (PIPETRAIN_DEVICES=8) or from the --config file.\n"
         "\n"
         "Limits: layouts of more than 4,194,304 pp x chunks x microbatches (65,536 with --post-validation) are left out.\n";
}

}  // namespace pipetrain
