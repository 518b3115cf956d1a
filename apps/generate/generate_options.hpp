// The options of `pipetrain generate`.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "actors/generation/generation_job.hpp"
#include "actors/generation/sampling.hpp"
#include "apps/options/option_layers.hpp"
#include "apps/options/option_table.hpp"
#include "apps/options/process_options.hpp"
#include "apps/options/train_options.hpp"
#include "data/prompts.hpp"

namespace pipetrain {

inline constexpr std::int64_t usual_new_tokens = 128;
inline constexpr const char* model_without_adapter = "base";  // in the place of an adapter's name

// An adapter of the model that prompts may use.
struct NamedAdapter {
  std::string name;  // empty: the only one, which needs none
  std::filesystem::path folder;
};

struct GenerateOptions : GenerationSettings {
  std::string model;                               // a Hugging Face folder
  std::vector<NamedAdapter> adapters;              // folders of PEFT's, for this model
  std::optional<std::filesystem::path> tokenizer;  // none: the folder's, else bytes are tokens
  AttentionSettings attention;                     // as the model was trained
  std::vector<Prompt> prompts;                     // one or more; in process 0 only
  bool from_file = false;                          // given by --prompts
  std::optional<std::string> chat_template;
  std::string system;
  Sampling sampling;
  std::optional<std::int64_t> max_new_tokens;
  std::optional<int> in_flight;  // prompts at the same time
  bool json = false, dry_run = false;
  ProcessOptions processes;  // of which this one runs its share of the ranks
  OptionPlaces places;
  std::vector<std::string> notes;
};

// Process 0 reads the file of prompts. Throws Error(input).
GenerateOptions parse_generate_options(const std::vector<std::string>& arguments, const Environment& environment,
                                       const Machine& machine);

// The same options for pipetrain launch: what its processes will be given, and how it starts them.
struct LaunchedGeneration {
  GenerateOptions generate;
  LaunchOptions launch;
};
LaunchedGeneration parse_launch_generate_options(const std::vector<std::string>& arguments, const Environment& environment,
                                                 const Machine& machine);

std::string generate_help();

}  // namespace pipetrain
