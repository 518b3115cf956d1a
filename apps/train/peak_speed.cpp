#include "apps/train/peak_speed.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

#include "core/device_name.hpp"
#include "model/config/mode_names.hpp"

namespace pipetrain {

std::string PeakSpeed::note() const { return fmt::format("MFU is a share of {:g} TFLOP/s a device: {}", tflops, source); }

std::optional<double> published_half_tflops(const std::string& device) {
  // Dense bf16 and fp16, which are equally fast, in TFLOP/s, from NVIDIA's data sheets. A longer name precedes the
  // names that it contains, since PCIe cards are slower.
  static constexpr std::array<std::pair<std::string_view, double>, 14> table = {{{"H100 PCIe", 756},
                                                                                 {"H100 NVL", 835},
                                                                                 {"H200 NVL", 835},
                                                                                 {"GH200", 989},
                                                                                 {"H200", 989},
                                                                                 {"H100", 989},
                                                                                 {"H800", 989},
                                                                                 {"H20", 148},
                                                                                 {"A100", 312},
                                                                                 {"A800", 312},
                                                                                 {"A40", 149.7},
                                                                                 {"A10", 125},
                                                                                 {"L40S", 362},
                                                                                 {"L4", 121}}};
  for (const auto& [name, tflops] : table) {
    const std::size_t at = device.find(name);
    if (at == device.npos) continue;
    const std::size_t end = at + name.size();  // so that "A10" does not match "A100"
    if (end == device.size() || !std::isalnum(static_cast<unsigned char>(device[end]))) return tflops;
  }
  return {};
}

std::optional<PeakSpeed> peak_speed(const TrainOptions& options) {
  if (options.peak_tflops) return PeakSpeed{*options.peak_tflops, "given by --peak-tflops"};
  const RunSettings& run = options.run;
  if (run.devices.kind != DeviceKind::cuda || run.numerics.precision == Precision::fp32()) return {};
  const std::string device = cuda_device_name(run.devices.gpus.empty() ? 0 : run.devices.gpus.front());
  const auto tflops = published_half_tflops(device);
  if (!tflops) return {};
  // The GPUs that support fp8 have twice that speed in 8 bits.
  const double times = run.numerics.precision.fp8_products ? 2 : 1;
  return PeakSpeed{times * *tflops, fmt::format("{}, dense {}, as published", device, precision_name(run.numerics.precision))};
}

}  // namespace pipetrain
