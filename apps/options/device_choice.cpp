#include "apps/options/device_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <thread>

#include "core/counted.hpp"
#include "core/device.hpp"
#include "core/mesh.hpp"
#include "core/parsing.hpp"

namespace pipetrain {

namespace {

std::string needs_gpus(const RunSettings& run, int here, const Machine& machine) {
  return fmt::format("{} takes {}{}, and {} {} visible", sizes_text(run), counted(here, "GPU"),
                     here < run.ranks() ? " on this host" : "", machine.gpus, machine.gpus == 1 ? "is" : "are");
}

// Parses a list such as "0,2,5": one GPU for each rank, each GPU once.
std::vector<int> parse_devices(const OptionValues& values, const std::string& list, const Machine& machine, int needed) {
  std::vector<int> devices;
  for (const std::string_view word : split(list, ',')) {
    const int device = number_from<int>(word).value_or(-1);
    if (device < 0) values.fail("devices", "must be GPU numbers with commas between, such as 0,1,2,3");
    if (device >= machine.gpus)
      values.fail("devices", fmt::format("there is no GPU {}; {} {} visible, counted from 0", device, machine.gpus,
                                         machine.gpus == 1 ? "is" : "are"));
    if (std::count(devices.begin(), devices.end(), device) != 0)
      values.fail("devices", fmt::format("GPU {} is listed twice; list each GPU once", device));
    devices.push_back(device);
  }
  if (std::ssize(devices) != needed)
    values.fail("devices",
                fmt::format("names {}, but pp x tp x dp takes {}; give as many", counted(std::ssize(devices), "GPU"), needed));
  return devices;
}

// Which ranks of the run are on this host. Processes are dealt to hosts in order.
struct HostRanks {
  int first = 0, count = 0;          // of the host
  int own_first = 0, own_count = 0;  // of this process
};

HostRanks ranks_here(const RunSettings& run, const ProcessOptions& processes) {
  if (!processes.several()) return {0, static_cast<int>(run.ranks()), 0, static_cast<int>(run.ranks())};
  const int first_process = processes.process - processes.local;
  const auto places = deal_ranks(static_cast<int>(run.ranks()), processes.processes - run.spares);
  const auto before = [&](int process) {
    return static_cast<int>(
        std::count_if(places.begin(), places.end(), [&](const auto& place) { return place.process < process; }));
  };
  HostRanks here;
  here.first = before(first_process);
  here.count = before(first_process + processes.locals) - here.first;
  here.own_first = before(processes.process);
  here.own_count = before(processes.process + 1) - here.own_first;
  return here;
}

// Launchers may show each process its own GPUs only.
bool sees_own_gpus_only(const HostRanks& here, const Machine& machine) {
  return machine.gpus < here.count && machine.gpus == here.own_count;
}

// Returns one GPU after the other. A process that sees only its own GPUs takes the first ones.
std::vector<int> first_gpus(const HostRanks& here, bool own_only) {
  std::vector<int> gpus(static_cast<std::size_t>(here.count));
  std::iota(gpus.begin(), gpus.end(), 0);
  if (own_only) std::iota(gpus.begin() + (here.own_first - here.first), gpus.end(), 0);
  return gpus;
}

// A dry run shows the whole run as one process's.
std::vector<int> gpus_of_dry_run(const OptionValues& values, const HostRanks& here, const std::vector<int>& of_host,
                                 std::int64_t ranks) {
  if (here.count < ranks) values.fail("dry-run", "a dry run of GPUs on several hosts is not built yet; use --device cpu");
  return of_host;
}

// A process that sees only its own GPUs knows no others.
std::map<int, int> gpus_by_rank(const HostRanks& here, const std::vector<int>& of_host, bool own_only) {
  std::map<int, int> gpus;
  for (int i = 0; i < here.count; ++i) {
    const int rank = here.first + i;
    const bool own = rank >= here.own_first && rank < here.own_first + here.own_count;
    if (own || !own_only) gpus[rank] = of_host[static_cast<std::size_t>(i)];
  }
  return gpus;
}

// Returns this process's GPUs among those of the host's ranks.
std::vector<int> own_gpus(const HostRanks& here, const std::vector<int>& of_host) {
  const auto first = of_host.begin() + (here.own_first - here.first);
  return {first, first + here.own_count};
}

}  // namespace

std::string sizes_text(const RunSettings& run) {
  return fmt::format("pp {} x {}tp {} x dp {}{}", run.layout.pp,
                     run.layout.cp > 1 ? fmt::format("cp {} x ", run.layout.cp) : "", run.layout.tp, run.batch.dp,
                     run.layout.ep > 1 ? fmt::format(" (ep {})", run.layout.ep) : "");
}

Machine this_machine() { return {cuda_device_count(), std::max(1, static_cast<int>(std::thread::hardware_concurrency()))}; }

void choose_devices(const OptionValues& values, const Machine& machine, TrainOptions& options) {
  const RunSettings& run = options.run;
  DeviceSettings& chosen = options.run.devices;
  const HostRanks here = ranks_here(run, options.processes);
  const bool own_only = sees_own_gpus_only(here, machine), enough = machine.gpus >= here.count || own_only;
  const auto list = values.text("devices");
  switch (values.choice("device").value_or(0)) {
    case 0:
      chosen.kind = enough ? DeviceKind::cuda : DeviceKind::cpu;
      if (!enough && list)
        values.fail("devices", needs_gpus(run, here.count, machine) + "; use smaller sizes, or leave it out");
      if (!enough) options.notes.push_back(needs_gpus(run, here.count, machine) + ": using the CPU");
      break;
    case 1:
      if (list) values.fail("devices", "names GPUs, but --device is cpu; leave one of them out");
      chosen.kind = DeviceKind::cpu;
      break;
    default:
      if (!enough) values.fail("device", needs_gpus(run, here.count, machine) + "; use smaller sizes, or --device cpu");
      chosen.kind = DeviceKind::cuda;
  }
  if (chosen.kind == DeviceKind::cuda) {
    const auto of_host = list ? parse_devices(values, *list, machine, here.count) : first_gpus(here, own_only);
    const bool dry_run = values.on_off("dry-run").value_or(false);
    chosen.gpus = dry_run ? gpus_of_dry_run(values, here, of_host, run.ranks()) : own_gpus(here, of_host);
    chosen.gpu_of_rank = gpus_by_rank(here, of_host, own_only);
  }
  const int share = std::max(1, machine.cores / std::max(1, here.count));
  chosen.threads = static_cast<int>(values.integer("threads").value_or(share));
}

}  // namespace pipetrain
