// The table of features that do not work together. Every command asks it, so that each rule is written once, and the
// documentation is printed from it.
#pragma once

#include <optional>
#include <span>

#include "actors/training/job/features.hpp"

namespace pipetrain {

// Two features that do not work together, or one that does not work on a kind of device.
struct Combination {
  Feature feature;  // the error names the setting that asks for it
  std::optional<Feature> other = {};
  std::optional<DeviceKind> device = {};  // not given: on all
  const char* why = nullptr;              // a sentence, and what to do instead
  bool unbuilt = false;                   // it could work, and is not built yet
};

std::span<const Combination> refused_combinations();

// Returns the first that these features make, or null.
const Combination* find_refused(const UsedFeatures& used);

// Throws Error(input), with the setting, for the first that these features make.
void check_combinations(const UsedFeatures& used);

}  // namespace pipetrain
