#include "apps/doctor/doctor.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <limits>
#include <system_error>
#include <thread>

#include "apps/doctor/combinations_page.hpp"
#include "apps/doctor/measure_together.hpp"
#include "apps/doctor/model_report.hpp"
#include "apps/options/option_files.hpp"
#include "apps/options/option_values.hpp"
#include "apps/options/shared_options.hpp"
#include "apps/output/output_files.hpp"
#include "apps/output/stderr_lines.hpp"
#include "comm/control/network_interfaces.hpp"
#include "comm/nccl/nccl_transport.hpp"
#include "comm/ucx/ucx_transport.hpp"
#include "core/counted.hpp"
#include "core/device.hpp"
#include "core/error.hpp"
#include "data/rows/parquet.hpp"
#include "ops/half_products.hpp"
#include "ops/ops.hpp"
#include "tuning/measured_devices.hpp"

namespace pipetrain {
namespace {

void print_fact(const std::string& name, const std::string& text) { fmt::print("{:<10} {}\n", name, text); }

double gibibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

// Returns true if the CPU backend can run here.
bool check_cpu() {
  const auto device = make_cpu_device(0, 1);
  const MemoryInfo memory = device->memory();
  print_fact("cores", fmt::format("{}", std::thread::hardware_concurrency()));
  print_fact("memory", fmt::format("{:.1f} GiB, {:.1f} free", gibibytes(memory.total), gibibytes(memory.free)));
  const auto stream = device->make_stream("doctor");
  try {
    make_cpu_ops(*stream);
    print_fact("cpu",
               fmt::format("ok: fp32, bf16 ({}), fp16 ({})", half_products(DType::bf16).how, half_products(DType::f16).how));
    return true;
  } catch (const Error& error) {
    print_fact("cpu", error.what());
    return false;
  }
}

void check_gpus() {
  const int count = cuda_device_count();
  if (count > 0) {
    for (int i = 0; i < count; ++i) {
      const MemoryInfo memory = make_cuda_device(i)->memory();
      print_fact(fmt::format("gpu {}", i),
                 fmt::format("{:.1f} GiB, {:.1f} free", gibibytes(memory.total), gibibytes(memory.free)));
    }
    return;
  }
  try {
    make_cuda_device(0);
  } catch (const Error& error) {
    print_fact("gpus", fmt::format("none: {}", error.what()));
  }
}

// Prints the libraries that connect processes.
void tell_of_processes() {
  print_fact("processes", "ok: control plane over TCP");
  print_fact("ucx", describe_ucx());
  print_fact("nccl", describe_nccl());
  std::string text;
  for (const NetworkInterface& entry : network_interfaces())
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", entry.name, entry.address);
  print_fact("network", text.empty() ? "no interface is up" : text);
}

std::string rate(double per_second, const char* unit) {
  if (per_second >= 1e12) return fmt::format("{:.4g} T{}", per_second / 1e12, unit);
  return fmt::format("{:.4g} G{}", per_second / 1e9, unit);
}

void print_links(const MeasuredTogether& measured) {
  const MeasuredDevices& devices = measured.devices;
  for (int one = 0; one < devices.processes(); ++one) {
    for (int other = one + 1; other < devices.processes(); ++other) {
      const MeasuredLink& link = devices.link(one, other);
      const auto host = [&](int process) { return devices.hosts[static_cast<std::size_t>(process)]; };
      print_fact("link", fmt::format("process {} to {}, {}: {}, {:.3g} us over {}", one, other,
                                     host(one) == host(other) ? "on one host" : "between hosts", rate(link.rate, "B/s"),
                                     link.latency * 1e6, measured.transport));
    }
  }
}

void print_measured(const MeasuredDevices& devices) {
  const bool cpu = devices.kind == DeviceKind::cpu;
  print_fact("measured", (cpu ? fmt::format("{} CPU devices of {} threads", devices.count, devices.threads)
                              : counted(devices.count, "GPU")) +
                             ", all at once, rates that they sustain");
  print_fact("products", rate(devices.fp32_flops, "FLOP/s fp32") +
                             (devices.bf16_flops ? ", " + rate(*devices.bf16_flops, "FLOP/s bf16") : "") + " each");
  print_fact("copies", rate(devices.memory_rate, "B/s read and written") + " each");
  print_fact("overhead", fmt::format("{:.3g} us a block", devices.block_overhead * 1e6));
  if (devices.link_rate)
    print_fact("links", fmt::format("{}, {:.3g} us", rate(*devices.link_rate, "B/s"), *devices.latency * 1e6));
}

void tell(const MeasuredDevices& devices, const std::filesystem::path& file) {
  OutputFiles files;
  files.add("measure", file, [&](std::ostream& out) { write_measured_devices(out, devices); });
  files.put_in_place();
  print_measured(devices);
}

// Options may also be set in the environment, for other commands.
bool on_command_line(const OptionValues& values, const char* name) {
  return values.given(name) && values.where(name).starts_with("--");
}

ProcessOptions measuring_processes(const OptionValues& values, const Environment& environment) {
  const ProcessOptions processes = read_processes(values, environment, std::numeric_limits<std::int64_t>::max());
  if (processes.processes > most_measured_processes)
    throw Error(
        ErrorKind::input,
        fmt::format(
            "{}: {} processes are more than the {} whose links are measured two by two; start one on each host, or on fewer hosts",
            values.where("nnodes"), processes.processes, most_measured_processes));
  return processes;
}

struct MeasureRequest {
  std::filesystem::path file;
  MeasuredHost own;  // a CPU's cores are divided into devices of this many threads
  ProcessOptions processes;
};

// Returns the GPU of a process: each process of a host takes one, in order. If a launcher shows every process a single
// GPU, it is that one.
int gpu_of(const OptionValues& values, const ProcessOptions& processes, int gpus) {
  if (!processes.several() || gpus == 1) return 0;
  if (processes.local >= gpus)
    values.fail("device", fmt::format("{} of this host have {}; start one for each at most, or use cpu",
                                      counted(processes.local + 1, "process", "es"), counted(gpus, "GPU")));
  return processes.local;
}

MeasureRequest read_measure(const OptionValues& values, const Environment& environment, const std::filesystem::path& file) {
  MeasureRequest request;
  request.file = file;
  request.processes = measuring_processes(values, environment);
  const Machine machine = this_machine();
  const auto choice = values.choice("device").value_or(0);
  if (choice == 2 && machine.gpus == 0) values.fail("device", "no GPU is visible; use cpu");
  MeasuredHost& own = request.own;
  const bool cpu = choice == 1 || (choice == 0 && machine.gpus == 0);
  own.kind = cpu ? DeviceKind::cpu : DeviceKind::cuda;
  if (!cpu && on_command_line(values, "threads"))
    values.fail("threads", "is of CPU devices, and GPUs are measured; leave it out, or use --device cpu");
  own.threads = static_cast<int>(values.integer("threads", {1, machine.cores}).value_or(1));
  own.devices = cpu ? machine.cores / own.threads : machine.gpus;
  if (cpu) return request;
  own.threads = 1;
  own.gpu = gpu_of(values, request.processes, machine.gpus);
  return request;
}

int tell_of_model(const OptionValues& values, const std::string& model) {
  if (values.given("measure")) values.fail("model", "is reported alone; leave out --measure");
  std::error_code error;
  if (!std::filesystem::exists(model, error)) values.fail("model", "there is no such folder or file; check the path");
  const ModelReport report = report_model(model);
  for (const auto& [name, text] : report.facts) print_fact(name, text);
  return report.loads ? 0 : exit_status(ErrorKind::input);
}

void measure(const MeasureRequest& request) {
  const MeasuredHost& own = request.own;
  if (!request.processes.several()) return tell(measure_devices(own.kind, own.devices, own.threads), request.file);
  const MeasuredTogether measured = measure_together(request.processes, own);
  if (!request.processes.leads()) return print_note(fmt::format("process 0 writes {}", request.file.string()));
  tell(measured.devices, request.file);
  print_links(measured);
}

}  // namespace

const OptionRows& doctor_option_table() {
  static const OptionRows table = joined_rows({
      {{"Speed", "measure", "FILE",
        "measure what the devices sustain, and the links between several processes, and write what tune --measured and simulate --measured read; takes some seconds"},
       shared_option("Speed", "device", {.help = "which to measure; auto takes the GPUs if there are any"}),
       shared_option("Speed", "threads",
                     {"1", "compute threads of one CPU device; as many devices as the cores have room for"}),
       shared_option("Processes", "nnodes", {"1", "processes that measure the links between them too"}),
       shared_option("Processes", "node-rank"),
       shared_option("Processes", "master"),
       shared_option("Processes", "token-file", {"none"}),
       shared_option("Processes", "rendezvous-timeout"),
       shared_option("Processes", "transport"),
       {"Model", "model", "DIR|FILE",
        "say what is understood and what is refused of a model's config.json, weights, tokenizer and chat template, and nothing else; the exit status is 2 where something is refused"},
       {"Settings", "combinations", "", "print which options do not work together, in Markdown, and nothing else", OnOff{},
        "off"}},
      general_options(),
  });
  return table;
}

std::string doctor_help() {
  return "pipetrain doctor OPTIONS\n"
         "Reports the features of this build and this machine, on request their speed, or what is understood of a model.\n"
         "\n"
         "  pipetrain doctor --model Qwen3-0.6B\n"
         "  pipetrain doctor --measure devices.json && pipetrain tune --measured devices.json\n"
         "  pipetrain doctor --measure links.json --nnodes 2 --node-rank 0 --master 10.0.0.1:29500 --token-file token\n"
         "\n" +
         format_options(doctor_option_table());
}

int run_doctor(const std::vector<std::string>& arguments, const Environment& environment) {
  std::vector<std::string> notes;
  const OptionValues values(doctor_option_table(), gather_options(doctor_option_table(), arguments, environment, notes));
  const auto file = output_file(values, "measure");
  refuse_shared_files(values, {.inputs = {"config", "token-file", "model"}, .output_files = {"measure"}, .output_folders = {}});
  for (const char* name :
       {"device", "threads", "nnodes", "node-rank", "master", "token-file", "rendezvous-timeout", "transport"})
    if (!file && on_command_line(values, name)) values.fail(name, "belongs to --measure FILE; give it, or leave this out");
  if (values.on_off("combinations").value_or(false)) {
    fmt::print("{}", combinations_page());
    return 0;
  }
  if (const auto model = values.text("model")) return tell_of_model(values, *model);
  std::optional<MeasureRequest> request;
  if (file) request = read_measure(values, environment, *file);
  print_fact("pipetrain", PIPETRAIN_VERSION);
  const bool cpu = check_cpu();
  check_gpus();
  tell_of_processes();
  print_fact("parquet", describe_parquet());
  if (request) measure(*request);
  for (const auto& note : notes) print_note(note);
  return cpu || cuda_device_count() > 0 ? 0 : 1;
}

}  // namespace pipetrain
