#include "apps/doctor.hpp"

#include <fmt/format.h>

#include <thread>

#include "core/device.hpp"
#include "core/error.hpp"
#include "model/ops.hpp"

namespace pipetrain {
namespace {

void print_fact(const std::string& name, const std::string& text) { fmt::print("{:<10} {}\n", name, text); }

double gibibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

// Whether the CPU backend can run here.
bool check_cpu() {
  const auto device = make_cpu_device(0, 1);
  const MemoryInfo memory = device->memory();
  print_fact("cores", fmt::format("{}", std::thread::hardware_concurrency()));
  print_fact("memory", fmt::format("{:.1f} GiB, {:.1f} free", gibibytes(memory.total), gibibytes(memory.free)));
  const auto stream = device->make_stream("doctor");
  try {
    make_cpu_ops(*stream);
    print_fact("cpu", "ok: fp32");
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

}  // namespace

int run_doctor(const std::vector<std::string>& arguments) {
  if (!arguments.empty()) {
    if (arguments.front() == "--help") {
      fmt::print("pipetrain doctor\n\nTells what this build and this machine have. It takes no options.\n");
      return 0;
    }
    throw Error(ErrorKind::input, fmt::format("{}: doctor takes no options", arguments.front()));
  }
  print_fact("pipetrain", PIPETRAIN_VERSION);
  const bool cpu = check_cpu();
  check_gpus();
  return cpu || cuda_device_count() > 0 ? 0 : 1;
}

}  // namespace pipetrain
