// The options of `pipetrain generate`.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "actors/generation/sampling.hpp"
#include "actors/training/run_settings.hpp"
#include "apps/options/option_layers.hpp"
#include "apps/options/option_table.hpp"
#include "apps/options/train_options.hpp"
#include "data/prompts.hpp"

namespace pipetrain {

struct GenerateOptions {
  std::string model;                               // a Hugging Face folder
  std::optional<std::filesystem::path> tokenizer;  // none: the folder's, else bytes are tokens
  std::vector<Prompt> prompts;                     // one or more
  bool from_file = false;                          // given by --prompts
  std::optional<std::string> chat_template;
  std::string system;
  Sampling sampling;
  std::optional<std::int64_t> max_new_tokens;
  std::optional<int> in_flight;  // prompts at the same time
  int pp = 1, tp = 1;
  DeviceSettings devices;
  Precision precision;
  std::chrono::milliseconds stall{600000};
  bool json = false, dry_run = false;
  OptionPlaces places;
  std::vector<std::string> notes;
};

// Reads the file of prompts. Throws Error(input).
// Why several processes do not generate together, and what works.
inline constexpr const char* generate_is_one_process =
    "generate runs as one process, which drives all devices of its host; start pipetrain generate once, with --pp and --tp";

GenerateOptions parse_generate_options(const std::vector<std::string>& arguments, const Environment& environment,
                                       const Machine& machine);
std::string generate_help();

}  // namespace pipetrain
