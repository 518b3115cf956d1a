#include "apps/tune_options.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <limits>

#include "apps/option_values.hpp"
#include "core/device.hpp"
#include "core/error.hpp"

namespace pipetrain {

namespace {

constexpr std::int64_t most_devices = 65536;

void read_model(const OptionValues& values, TuneOptions& options) {
  options.model = values.text("model").value_or(options.model);
  std::error_code ignored;
  auto& config = options.request.config;
  config = std::filesystem::is_directory(options.model, ignored) ? read_hf_config(options.model) : preset_config(options.model);
  if (const auto layers = values.integer("layers", 1, 1'000'000)) {
    if (*layers > config.layers) values.fail("layers", fmt::format("the model {} has only {}", options.model, config.layers));
    config.layers = *layers;
    options.layers_given = true;
  }
  options.request.sequence =
      values.integer("seq-len", 1, std::numeric_limits<std::int32_t>::max()).value_or(config.max_positions);
  if (options.request.sequence > config.max_positions)
    values.fail("seq-len", fmt::format("the model {} has only {} positions", options.model, config.max_positions));
}

void read_devices(const OptionValues& values, TuneOptions& options) {
  const int gpus = cuda_device_count();
  auto& request = options.request;
  const auto devices = values.integer("devices", 1, most_devices);
  if (!devices && gpus == 0) values.fail("devices", "no GPU is visible to count; say how many devices to plan for");
  request.devices = static_cast<int>(devices.value_or(gpus));
  request.most_tp = static_cast<int>(values.integer("max-tp", 1, most_devices).value_or(request.most_tp));
  request.global_batch =
      values.integer("global-batch", 1, std::numeric_limits<std::int32_t>::max()).value_or(4 * std::int64_t{request.devices});
  const auto positive = [&](const char* name, double otherwise) { return values.number(name, {0, true}).value_or(otherwise); };
  const double gib = std::int64_t{1} << 30;
  const double memory =
      gpus > 0 && !values.given("memory") ? static_cast<double>(make_cuda_device(0)->memory().free) / gib : 80;
  request.speed.memory_bytes = positive("memory", memory) * gib;
  request.speed.flops = positive("tflops", 400) * 1e12;
  request.speed.link_rate = positive("bandwidth", 300) * 1e9;
  request.speed.memory_rate = positive("memory-bandwidth", 3000) * 1e9;
  request.speed.latency = values.number("latency", {}).value_or(15) * 1e-6;
  request.speed.block_overhead = values.number("block-overhead", {}).value_or(40) * 1e-6;
}

}  // namespace

const std::vector<OptionSpec>& tune_option_table() {
  static const std::vector<OptionSpec> table = {
      {"Model and batch", "model", "NAME|DIR", "a preset or a Hugging Face folder (its config.json is enough)", "tiny"},
      {"Model and batch", "layers", "N", "keep only the first N layers of the model", "all"},
      {"Model and batch", "seq-len", "N", "tokens of one sequence", "the model's most"},
      {"Model and batch", "global-batch", "N", "sequences of one step, the same for every layout", "4 x devices"},

      {"Devices", "devices", "N", "how many there are; every layout uses them all", "the visible GPUs"},
      {"Devices", "memory", "GIB", "what a run may take of each", "what the first visible GPU has free, else 80"},
      {"Devices", "tflops", "X", "what each sustains in matrix products, in the precision of the run", "400"},
      {"Devices", "memory-bandwidth", "GB/S", "of each device's memory", "3000"},
      {"Devices", "bandwidth", "GB/S", "from one device to another", "300"},
      {"Devices", "latency", "US", "of a message between devices, in microseconds", "15"},
      {"Devices", "block-overhead", "US", "that each pass of an attention or MLP block takes whatever its size", "40"},
      {"Devices", "max-tp", "N", "largest tensor-parallel size, such as the devices of one host", "8"},

      {"Output", "count", "N", "how many of the fastest layouts to print", "10"},
      {"Output", "json", "", "print an array with one object per layout", "off"},

      {"General", "config", "FILE", "options from a TOML or JSON file, by their names here", ""},
      {"General", "help", "", "print this page", ""},
  };
  return table;
}

TuneOptions parse_tune_options(const std::vector<std::string>& arguments, const Environment& environment) {
  TuneOptions options;
  const OptionValues values(gather_options(tune_option_table(), arguments, environment, options.notes));
  read_model(values, options);
  read_devices(values, options);
  options.count = static_cast<int>(values.integer("count", 1, 1000).value_or(options.count));
  options.json = values.on_off("json").value_or(false);
  return options;
}

std::string tune_help() {
  return "pipetrain tune OPTIONS\n"
         "Search the fastest layouts of a model over devices: pp x tp x dp x chunks x microbatch x schedule, each simulated. "
         "What\n"
         "does not fit the memory is dropped; its use is counted as a run counts it (--dry-run). Times follow from the numbers "
         "of\n"
         "the devices below, so give those of yours. Recomputation is not built yet and not searched, nor is the schedule "
         "auto.\n"
         "\n"
         "  pipetrain tune --model llama2-7b --devices 8 --memory 140 --tflops 650\n"
         "\n" +
         format_options(tune_option_table()) +
         "\n"
         "Options can also come from the environment (PIPETRAIN_DEVICES=8) or from the --config file.\n";
}

}  // namespace pipetrain
