// The options of `pipetrain replay`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/options/option_table.hpp"
#include "apps/options/train_options.hpp"
#include "apps/replay/what_if.hpp"

namespace pipetrain {

struct ReplayOptions {
  std::filesystem::path file;
  std::optional<std::int64_t> step;  // shown; not given: the last
  std::optional<double> at;          // seconds
  Changes changes;
  bool json = false;
  std::optional<std::filesystem::path> svg, html, trace, csv;
  std::vector<std::string> notes;
};

// `arguments` are those after the command's name. Throws Error(input).
ReplayOptions parse_replay_options(const std::vector<std::string>& arguments, const Environment& environment);

std::string replay_help();

}  // namespace pipetrain
