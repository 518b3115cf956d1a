#include "apps/generate/open_generation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "actors/generation/generation_layout.hpp"
#include "actors/generation/prompt_ids.hpp"
#include "actors/training/job/attention_settings.hpp"
#include "apps/generate/chosen_adapters.hpp"
#include "core/counted.hpp"
#include "core/error.hpp"
#include "data/tokenizers/folder_tokenizer.hpp"
#include "model/config/mode_names.hpp"
#include "model/named_model.hpp"
#include "model/weights/peft/peft_config.hpp"
#include "model/weights/peft_folder.hpp"
#include "model/weights/stored_model.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<std::int32_t>;

std::unique_ptr<Tokenizer> open_tokenizer_of(const GenerateOptions& options, std::vector<std::string>& notes) {
  if (options.tokenizer) return open_tokenizer(*options.tokenizer);
  if (holds_tokenizer(options.model)) return open_tokenizer(options.model);
  if (options.chat_template)
    throw Error(ErrorKind::input, {"chat", *options.chat_template},
                "a chat needs a tokenizer, and there is none in the model's folder; name one with --tokenizer");
  notes.push_back(fmt::format("{} has no tokenizer: bytes are tokens", options.model));
  return nullptr;
}

std::int64_t new_tokens(const GenerateOptions& options, const OpenPrompts& open) {
  const std::int64_t left = open.config.max_positions - static_cast<std::int64_t>(open.longest);
  if (options.max_new_tokens && *options.max_new_tokens > left)
    throw Error(ErrorKind::input, {"max-new-tokens", std::to_string(*options.max_new_tokens)},
                fmt::format("the longest prompt has {}, and the model {} positions, which leaves {}; use that or less",
                            counted(static_cast<std::int64_t>(open.longest), "token"), open.config.max_positions, left));
  return options.max_new_tokens.value_or(std::min(usual_new_tokens, left));
}

ModelConfig open_model(const GenerateOptions& options, std::vector<std::string>& notes) {
  ModelConfig config = named_model(options.model, {});
  if (config.classifies())
    throw Error(ErrorKind::input, {"model", options.model}, "classifies sequences and writes no text; give a language model");
  config = with_head_of_weights(std::move(config), options.model, notes);
  set_attention(options.attention, config);
  return config;
}

// Reads the adapters without their weights.
std::vector<GenerationAdapter> open_adapters(const GenerateOptions& options, const ModelConfig& config) {
  std::vector<GenerationAdapter> adapters;
  for (const auto& [name, folder] : options.adapters) adapters.push_back({name, with_peft_config(config, folder), nullptr});
  return adapters;
}

void open_weights(const GenerateOptions& options, GenerationJob& job) {
  job.weights = stored_weights(job.config, options.model);
  for (std::size_t i = 0; i < job.adapters.size(); ++i)
    job.adapters[i].weights = peft_weights(job.adapters[i].config, options.adapters[i].folder);
}

void open_prompts(const GenerateOptions& options, OpenPrompts& open, std::vector<std::string>& notes) {
  open.tokenizer = open_tokenizer_of(options, notes);
  const PromptForm form{open.tokenizer.get(), options.chat_template, options.system};
  open.prompts = prompt_ids(options.prompts, form, open.config);
  for (const Ids& prompt : open.prompts) open.longest = std::max(open.longest, prompt.size());
  open.decoding.sampling = options.sampling;
  open.decoding.max_new_tokens = new_tokens(options, open);
  open.decoding.end_ids = end_ids(options.model, options.prompts, form, open.config);
  open.decoding.adapters = chosen_adapters(options.prompts, options.adapters);
}

GenerationJob make_job(const GenerateOptions& options, const OpenPrompts& open) {
  GenerationJob job;
  static_cast<GenerationSettings&>(job) = options;
  job.config = open.config;
  job.adapters = open.adapters;
  const auto prompts = static_cast<std::int64_t>(open.prompts.size());
  job.sequences = static_cast<int>(std::min<std::int64_t>(prompts, options.in_flight.value_or(4 * options.pp)));
  job.positions = static_cast<std::int64_t>(open.longest) + open.decoding.max_new_tokens;
  return job;
}

// Shares the lengths of process 0's prompts with all processes.
void share_sizes(JoinedRun& joined, GenerationJob& job) {
  std::istringstream sizes(joined.from_first("the sizes of the prompts", fmt::format("{} {}", job.sequences, job.positions)));
  sizes >> job.sequences >> job.positions;
}

}  // namespace

std::unique_ptr<JoinedRun> join_run(const GenerateOptions& options) {
  if (!options.processes.several() || options.dry_run) return nullptr;
  JoinRequest request;
  request.shape = {.pp = options.pp, .tp = options.tp};
  request.settings = {{"pp", std::to_string(options.pp)},
                      {"tp", std::to_string(options.tp)},
                      {"device", name_of(options.devices.kind)},
                      {"precision", precision_name(options.precision)}};
  request.stall = options.stall;
  request.places = options.places;
  return std::make_unique<JoinedRun>(options.processes, request);
}

GenerationJob open_job(const GenerateOptions& options, JoinedRun* joined, OpenPrompts& open, std::vector<std::string>& notes) {
  const auto in_all = [&](const std::string& what, const auto& work) { joined ? joined->together(what, work) : work(); };
  const auto in_first = [&](const std::string& what, const auto& work) { joined ? joined->in_first(what, work) : work(); };
  GenerationJob job;
  placing_errors(options.places, [&] {
    in_all("model", [&] {
      open.config = open_model(options, notes);
      open.adapters = open_adapters(options, open.config);
    });
    in_first("prompts", [&] { open_prompts(options, open, notes); });
    job = make_job(options, open);
    if (joined) share_sizes(*joined, job);
    if (options.dry_run) return;
    in_all("weights", [&] {
      generation_blocks(job);
      open_weights(options, job);
    });
  });
  if (joined) job.processes = joined->processes();
  return job;
}

}  // namespace pipetrain
