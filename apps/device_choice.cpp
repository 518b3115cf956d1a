#include "apps/device_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <thread>

#include "core/counted.hpp"

namespace pipetrain {

namespace {

std::string needs_gpus(const RunSettings& run, const Machine& machine) {
  return fmt::format("pp {} x tp {} x dp {} takes {}, and {} {} visible", run.layout.pp, run.layout.tp, run.batch.dp,
                     counted(run.ranks(), "GPU"), machine.gpus, machine.gpus == 1 ? "is" : "are");
}

// "0,2,5": one GPU for each rank, each once.
std::vector<int> parse_devices(const OptionValues& values, const std::string& list, const Machine& machine, int needed) {
  std::vector<int> devices;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    int device = -1;
    const auto [stop, error] = std::from_chars(list.data() + at, list.data() + end, device);
    if (error != std::errc() || stop != list.data() + end || device < 0)
      values.fail("devices", "must be GPU numbers with commas between, such as 0,1,2,3");
    if (device >= machine.gpus)
      values.fail("devices", fmt::format("there is no GPU {}; {} {} visible, counted from 0", device, machine.gpus,
                                         machine.gpus == 1 ? "is" : "are"));
    if (std::count(devices.begin(), devices.end(), device) != 0)
      values.fail("devices", fmt::format("GPU {} stands twice; give each GPU once", device));
    devices.push_back(device);
    at = end + 1;
  }
  if (std::ssize(devices) != needed)
    values.fail("devices",
                fmt::format("names {}, but pp x tp x dp takes {}; give as many", counted(std::ssize(devices), "GPU"), needed));
  return devices;
}

}  // namespace

Machine this_machine() { return {cuda_device_count(), std::max(1, static_cast<int>(std::thread::hardware_concurrency()))}; }

void choose_devices(const OptionValues& values, const Machine& machine, TrainOptions& options) {
  const RunSettings& run = options.run;
  DeviceSettings& chosen = options.run.devices;
  const int needed = static_cast<int>(run.ranks());
  const bool enough = machine.gpus >= needed;
  const auto list = values.text("devices");
  switch (values.choice("device", {"auto", "cpu", "cuda"}).value_or(0)) {
    case 0:
      chosen.kind = enough ? DeviceKind::cuda : DeviceKind::cpu;
      if (!enough && list) values.fail("devices", needs_gpus(run, machine) + "; use smaller sizes, or leave it out");
      if (!enough) options.notes.push_back(needs_gpus(run, machine) + ": training on the CPU");
      break;
    case 1:
      if (list) values.fail("devices", "names GPUs, but --device is cpu; leave one of them out");
      chosen.kind = DeviceKind::cpu;
      break;
    default:
      if (!enough) values.fail("device", needs_gpus(run, machine) + "; use smaller sizes, or --device cpu");
      chosen.kind = DeviceKind::cuda;
  }
  if (chosen.kind == DeviceKind::cuda) {
    chosen.gpus.resize(static_cast<std::size_t>(needed));
    std::iota(chosen.gpus.begin(), chosen.gpus.end(), 0);
    if (list) chosen.gpus = parse_devices(values, *list, machine, needed);
  }
  const int share = std::max(1, machine.cores / needed);
  chosen.threads = static_cast<int>(values.integer("threads", 1, 1024).value_or(share));
}

}  // namespace pipetrain
