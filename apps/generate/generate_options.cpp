#include "apps/generate/generate_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <limits>
#include <set>

#include "apps/options/data_options.hpp"
#include "apps/options/device_choice.hpp"
#include "apps/options/numerics_options.hpp"
#include "apps/options/option_files.hpp"
#include "apps/options/option_values.hpp"
#include "apps/options/shared_options.hpp"
#include "core/mesh.hpp"
#include "data/tokenizers/chat_template.hpp"

namespace pipetrain {
namespace {

constexpr std::int64_t any_token_count = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t most_generating_devices = 1024;

// Reads DIR or NAME=DIR. A path with "=" in it is a folder unless what stands before could be a name.
NamedAdapter read_adapter(const std::string& word) {
  std::error_code ignored;
  const std::size_t sign = word.find('=');
  const bool is_named = sign != std::string::npos && word.find('/') > sign && !std::filesystem::is_directory(word, ignored);
  return is_named ? NamedAdapter{word.substr(0, sign), word.substr(sign + 1)} : NamedAdapter{{}, word};
}

std::vector<NamedAdapter> read_adapters(const OptionValues& values) {
  std::vector<NamedAdapter> adapters;
  std::set<std::string> names{model_without_adapter};
  const std::vector<std::string> words = values.list("adapter");
  for (const std::string& word : words) {
    adapters.push_back(read_adapter(word));
    const auto& [name, folder] = adapters.back();
    std::error_code ignored;
    if (!std::filesystem::is_directory(folder, ignored))
      values.fail("adapter", fmt::format("there is no folder \"{}\"; give one with adapter_config.json, as PEFT and train "
                                         "--save leave it",
                                         folder.string()));
    if (name.empty() && words.size() > 1)
      values.fail("adapter", fmt::format("several adapters need names, for prompts to choose by; give NAME={}", word));
    if (!name.empty() && !names.insert(name).second)
      values.fail("adapter", fmt::format("\"{}\" names {}; choose another name", name,
                                         name == model_without_adapter ? "the model without adapters" : "two adapters"));
  }
  return adapters;
}

void read_generated_model(const OptionValues& values, GenerateOptions& options) {
  const auto model = values.text("model");
  if (!model) values.fail("model", "is needed: the Hugging Face folder of the model that writes; give its path");
  refuse_unreadable(values, "model");
  std::error_code ignored;
  if (!std::filesystem::is_directory(*model, ignored) && !std::filesystem::is_regular_file(*model, ignored))
    values.fail("model", "there is no such folder; give a Hugging Face folder, such as the model/ that train --save leaves");
  options.model = *model;
  options.adapters = read_adapters(values);
  if (const auto tokenizer = values.text("tokenizer")) options.tokenizer = *tokenizer;
  options.attention = {values.integer("window").value_or(0), values.integer("sinks").value_or(0),
                       values.text("attention-pattern").value_or("")};
}

void read_prompt_options(const OptionValues& values, GenerateOptions& options) {
  const bool file = values.given("prompts");
  if (file == values.given("prompt"))
    values.fail(file ? "prompts" : "prompt", file ? "--prompt is given too; keep one of them"
                                                  : "is needed: the text to continue; give it, or a file with --prompts");
  options.from_file = file;
  if (file && options.processes.leads()) {
    check_input_file(values, "prompts");
    PromptFile read;
    placing_errors(values.places(), [&] { read = read_prompts(*values.text("prompts")); });
    options.prompts = std::move(read.prompts);
    if (!read.note.empty()) options.notes.push_back(fmt::format("{}: {}", values.where("prompts"), read.note));
  } else if (!file) {
    options.prompts.resize(1);
    options.prompts.front().text = *values.text("prompt");
  }
  options.chat_template = values.text("chat") == "auto" ? "" : read_chat_template(values, "chat");
  if (values.given("system") && !options.chat_template)
    values.fail("system", "needs --chat TEMPLATE, which says how a chat becomes a text; give it");
  options.system = values.text("system").value_or("");
}

void read_sampling(const OptionValues& values, GenerateOptions& options) {
  Sampling& sampling = options.sampling;
  const auto temperature = values.number("temperature");
  sampling.top_k = values.integer("top-k").value_or(0);
  sampling.top_p = values.number("top-p").value_or(sampling.top_p);
  sampling.repetition_penalty = values.number("repetition-penalty").value_or(sampling.repetition_penalty);
  sampling.seed = values.unsigned_integer("seed").value_or(sampling.seed);
  const bool samples = values.given("top-k") || values.given("top-p");
  sampling.temperature = temperature.value_or(samples ? 1 : 0);
  for (const char* name : {"top-k", "top-p"})
    if (values.given(name) && sampling.is_greedy())
      values.fail(name, "has no meaning at temperature 0, which takes the most likely token; leave one of them out");
  options.max_new_tokens = values.integer("max-new-tokens");
}

void read_generation_sizes(const OptionValues& values, GenerateOptions& options) {
  options.pp = static_cast<int>(values.integer("pp").value_or(1));
  options.tp = static_cast<int>(values.integer("tp").value_or(1));
  if (std::int64_t{options.pp} * options.tp > most_generating_devices)
    values.fail("pp", fmt::format("pp {} x tp {} is more than {} devices; use smaller sizes", options.pp, options.tp,
                                  most_generating_devices));
}

void read_layout(const OptionValues& values, const Machine& machine, GenerateOptions& options) {
  if (const auto count = values.integer("in-flight")) options.in_flight = static_cast<int>(*count);
  TrainOptions train;
  train.run.layout.pp = options.pp;
  train.run.layout.tp = options.tp;
  train.processes = options.processes;
  choose_devices(values, machine, train);
  options.devices = train.run.devices;
  options.notes.insert(options.notes.end(), train.notes.begin(), train.notes.end());
  const bool gpu = options.devices.kind == DeviceKind::cuda;
  const bool bf16 = values.choice("precision").value_or(gpu ? 1 : 0) == 1;
  options.precision = bf16 ? Precision::bf16() : Precision::fp32();
  if (auto note = precision_note(options.precision, gpu)) options.notes.push_back(std::move(*note));
  if (const auto seconds = values.integer("stall-timeout")) options.stall = std::chrono::seconds(*seconds);
}

// Reads the options. `place` returns this process's place in a run of a given number of ranks.
GenerateOptions read_generation(const std::vector<std::string>& arguments, const Environment& environment,
                                const Machine& machine,
                                const std::function<ProcessOptions(const OptionValues&, std::int64_t ranks)>& place) {
  GenerateOptions options;
  const OptionValues values(generate_option_table(),
                            gather_options(generate_option_table(), arguments, environment, options.notes));
  options.places = values.places();
  read_generation_sizes(values, options);
  options.processes = place(values, std::int64_t{options.pp} * options.tp);
  read_generated_model(values, options);
  read_sampling(values, options);
  read_prompt_options(values, options);
  read_layout(values, machine, options);
  options.json = values.on_off("json").value_or(false);
  options.dry_run = values.on_off("dry-run").value_or(false);
  return options;
}

OptionRows prompt_rows() {
  constexpr const char* group = "Input";
  return {
      {group, "model", "DIR|FILE", "a Hugging Face folder: config.json and *.safetensors; or a model file of llm.c"},
      {group, "adapter", "[NAME=]DIR...",
       "adapters of the model, in folders as PEFT saves them: adapter_config.json and *.safetensors; a row {\"adapter\": NAME} "
       "of the prompts chooses among several",
       TextList{}, "none"},
      shared_option(group, "window"),
      shared_option(group, "sinks"),
      shared_option(group, "attention-pattern"),
      shared_option(group, "tokenizer", {"the one in the model's folder, else bytes are tokens"}),
      {group, "prompt", "TEXT", "the text to continue"},
      {group, "prompts", "FILE",
       "a prompt a line; in FILE.jsonl, rows {\"prompt\"} or {\"messages\": [{\"role\", \"content\"}]}"},
      {group, "chat", "NAME|FILE|auto",
       fmt::format("prompts are messages of a user, put in this template: {}, a file in Jinja, or auto, the tokenizer's",
                   fmt::join(chat_template_names(), ", ")),
       AnyText{}, "the tokenizer's, for rows {\"messages\"}"},
      {group, "system", "TEXT", "the system's message of a chat"},
  };
}

OptionRows sampling_rows() {
  constexpr const char* group = "Text";
  const Sampling usual;
  return {
      {group, "max-new-tokens", "N", "the most tokens to generate for a prompt", IntegerRange{1, any_token_count},
       fmt::format("{}, or as many as the model's positions leave", usual_new_tokens)},
      {group, "temperature", "T", "divides the logits before a token is drawn; 0: the most likely token", NumberRange{},
       "0; 1 with --top-k or --top-p"},
      {group, "top-k", "N", "draw from the N most likely tokens only", IntegerRange{1, any_token_count}, "all"},
      {group, "top-p", "P", "draw from the most likely tokens that together have this probability", NumberRange::above_to(0, 1),
       fmt::format("{}", usual.top_p)},
      {group, "repetition-penalty", "X", "makes tokens that the text has already less likely; 1: off",
       NumberRange{.above = true}, fmt::format("{}", usual.repetition_penalty)},
      shared_option(group, "seed", {.help = "seed of the random numbers"}),
  };
}

OptionRows layout_rows() {
  constexpr const char* group = "Layout";
  return {
      shared_option(group, "pp", {"1"}),
      shared_option(group, "tp"),
      {group, "in-flight", "N", "prompts at the same time: they fill the pipeline, and each has a key-value cache",
       IntegerRange{1, 4096}, "4 x pp, or all prompts"},
      shared_option(group, "device"),
      shared_option(group, "devices"),
      shared_option(group, "threads"),
      {group, "precision", "", "number type of weights, caches and computation", Choices{"fp32", "bf16"},
       "fp32 on CPU, bf16 on GPU"},
      shared_option(group, "stall-timeout"),
  };
}

OptionRows generation_process_rows() {
  OptionRows rows;
  for (const char* name : {"master", "nnodes", "node-rank", "nproc", "token-file", "rendezvous-timeout", "transport"})
    rows.push_back(shared_option("Processes", name));
  return rows;
}

}  // namespace

const OptionRows& generate_option_table() {
  static const OptionRows table = joined_rows({
      prompt_rows(),
      sampling_rows(),
      layout_rows(),
      generation_process_rows(),
      {{"Output", "json", "", "print a line {\"prompt\", \"text\", \"tokens\", \"end\"} for each prompt", OnOff{}, "off"},
       shared_option("Output", "dry-run", {.help = "print the memory of each device, and stop"})},
      general_options(),
  });
  return table;
}

GenerateOptions parse_generate_options(const std::vector<std::string>& arguments, const Environment& environment,
                                       const Machine& machine) {
  return read_generation(arguments, environment, machine, [&](const OptionValues& values, std::int64_t ranks) {
    return read_processes(values, environment, ranks);
  });
}

LaunchedGeneration parse_launch_generate_options(const std::vector<std::string>& arguments, const Environment& environment,
                                                 const Machine& machine) {
  LaunchedGeneration run;
  run.generate = read_generation(arguments, environment, machine, [&](const OptionValues& values, std::int64_t ranks) {
    run.launch = read_launch(values, environment, ranks);
    return processes_of(run.launch);
  });
  return run;
}

std::string generate_help() {
  return "pipetrain generate --model DIR --prompt TEXT OPTIONS\n"
         "Continue prompts with a model, over pipeline stages and tensor-parallel ranks. The text goes to stdout as it is generated.\n"
         "\n"
         "  pipetrain generate --model Llama-3.2-1B --prompt \"The sea is\" --max-new-tokens 64\n"
         "  pipetrain generate --model Llama-3.2-1B-Instruct --chat llama3 --prompt \"Why is the sea salt?\" --temperature 0.7\n"
         "  pipetrain generate --model run/model --prompts prompts.txt --pp 2 --json > answers.jsonl\n"
         "  pipetrain launch --nproc 2 generate --model Llama-3.2-1B --prompt \"The sea is\" --pp 2\n"
         "\n" +
         format_options(generate_option_table()) +
         "\n"
         "Options can also come from the environment (PIPETRAIN_MODEL=...) or from the --config file.\n";
}

}  // namespace pipetrain
