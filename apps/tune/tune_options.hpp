// The options of `pipetrain tune`.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/options/option_table.hpp"
#include "apps/options/train_options.hpp"
#include "tuning/layout_search.hpp"

namespace pipetrain {

struct TuneOptions {
  std::string model = "tiny";  // as the command lines to run name it
  bool layers_given = false;
  AdapterSettings adapter;
  std::optional<BasePrecision> base_precision;
  LayoutRequest request;
  int count = 10;                              // layouts to print
  std::optional<std::filesystem::path> plans;  // a folder for the plans of auto and the solver
  bool json = false;
  std::vector<std::string> notes;
};

// Throws Error(input).
TuneOptions parse_tune_options(const std::vector<std::string>& arguments, const Environment& environment);
std::string tune_help();

}  // namespace pipetrain
