// The speed that MFU (model FLOPs utilisation) is a share of.
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

// What --peak-tflops gives, else the published figure of the run's first GPU for its precision: dense matrix products, without
// sparsity, as in the maker's data sheets. Nothing where it is not known, as for CPUs: mfu is null then.
std::optional<PeakSpeed> peak_speed(const TrainOptions& options);
// The published one, by the device's name.
std::optional<double> published_half_tflops(const std::string& device);

}  // namespace pipetrain
