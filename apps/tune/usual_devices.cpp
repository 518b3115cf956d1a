#include "apps/tune/usual_devices.hpp"

#include <fmt/format.h>

#include "apps/options/option_files.hpp"
#include "tuning/measured_devices.hpp"

namespace pipetrain {

UsualDevices usual_devices(const OptionValues& values, std::vector<std::string>& notes) {
  UsualDevices usual;
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
      notes.push_back(fmt::format("{} has one device and no link between two: those are taken as {:g} GB/s and {:g} us", *file,
                                  usual.link_rate / 1e9, usual.latency * 1e6));
  } else if (const int gpus = cuda_device_count(); gpus > 0) {
    usual.devices = gpus;
    if (!values.given("memory")) usual.memory_bytes = static_cast<double>(make_cuda_device(0)->memory().free);
  }
  return usual;
}

}  // namespace pipetrain
