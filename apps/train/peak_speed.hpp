// The peak speed of a device, to which MFU (model FLOPs utilisation) relates.
#pragma once

#include <optional>
#include <string>

#include "apps/options/train_options.hpp"

namespace pipetrain {

struct PeakSpeed {
  double tflops = 0;   // of one device
  std::string source;  // "--peak-tflops", or the device and its maker's figure
  std::string note() const;
};

// Returns the value of --peak-tflops, else the published speed of the run's first GPU at its precision: dense matrix products,
// without sparsity, as in the maker's data sheets. Returns nothing if it is unknown, as for CPUs; mfu is then null.
std::optional<PeakSpeed> peak_speed(const TrainOptions& options);
// Returns the published speed by the device's name.
std::optional<double> published_half_tflops(const std::string& device);

}  // namespace pipetrain
