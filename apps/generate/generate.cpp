#include "apps/generate/generate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "actors/engine/step.hpp"
#include "actors/generation/decoding.hpp"
#include "actors/generation/prompt_ids.hpp"
#include "apps/output/stderr_lines.hpp"
#include "apps/signals/signals.hpp"
#include "core/counted.hpp"
#include "data/tokenizers/text_stream.hpp"
#include "model/named_model.hpp"
#include "model/weights/stored_model.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<std::int32_t>;

constexpr std::int64_t usual_new_tokens = 128;

// What the options name, opened.
struct OpenPrompts {
  ModelConfig config;
  std::unique_ptr<Tokenizer> tokenizer;  // null: bytes are tokens
  std::vector<Ids> prompts;
  std::size_t longest = 0;
  Decoding decoding;
};

bool has_tokenizer(const fs::path& folder) {
  std::error_code ignored;
  const auto holds = [&](const char* name) { return fs::exists(folder / name, ignored); };
  return holds("tokenizer.json") || holds("tokenizer.model") || holds("vocab.json");
}

std::unique_ptr<Tokenizer> open_tokenizer_of(const GenerateOptions& options, std::vector<std::string>& notes) {
  if (options.tokenizer) return open_tokenizer(*options.tokenizer);
  if (has_tokenizer(options.model)) return open_tokenizer(options.model);
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

OpenPrompts open_prompts(const GenerateOptions& options, std::vector<std::string>& notes) {
  OpenPrompts open;
  open.config = named_model(options.model, {});
  if (open.config.classifies())
    throw Error(ErrorKind::input, {"model", options.model}, "classifies sequences and writes no text; give a language model");
  open.tokenizer = open_tokenizer_of(options, notes);
  const PromptForm form{open.tokenizer.get(), options.chat_template, options.system};
  open.prompts = prompt_ids(options.prompts, form, open.config);
  for (const Ids& prompt : open.prompts) open.longest = std::max(open.longest, prompt.size());
  open.decoding.sampling = options.sampling;
  open.decoding.max_new_tokens = new_tokens(options, open);
  open.decoding.end_ids = end_ids(options.model, form, open.config);
  return open;
}

GenerationJob make_job(const GenerateOptions& options, const OpenPrompts& open) {
  GenerationJob job;
  job.config = open.config;
  job.pp = options.pp;
  job.tp = options.tp;
  job.devices = options.devices;
  job.precision = options.precision;
  const auto prompts = static_cast<std::int64_t>(open.prompts.size());
  job.sequences = static_cast<int>(std::min<std::int64_t>(prompts, options.in_flight.value_or(4 * options.pp)));
  job.positions = static_cast<std::int64_t>(open.longest) + open.decoding.max_new_tokens;
  job.stall = options.stall;
  return job;
}

// To stdout, at once: what cannot be written ends the run, because nobody would read the rest either.
void write_out(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
  throw std::system_error(errno, std::generic_category(), "stdout");
}

// Prints the prompts' texts in their order: that of the first that has not ended as it comes, others when it is their turn.
class TextPrinter : public DecodingEvents {
 public:
  TextPrinter(const GenerateOptions& options, const OpenPrompts& open) : options_(options) {
    for (const Ids& prompt : open.prompts) answers_.push_back({TextStream(open.tokenizer.get(), prompt), {}, 0, {}});
  }

  std::int64_t tokens() const { return tokens_; }

  void token(std::size_t prompt, std::int32_t id) override {
    ++tokens_;
    Answer& answer = answers_[prompt];
    ++answer.tokens;
    add(prompt, answer.stream.add(id));
  }

  void ended(std::size_t prompt, SequenceEnd how) override {
    Answer& answer = answers_[prompt];
    add(prompt, answer.stream.finish());
    answer.end = how;
    while (next_ < answers_.size() && answers_[next_].end) finish_next();
  }

 private:
  struct Answer {
    TextStream stream;
    std::string text;  // that has not been printed
    std::int64_t tokens = 0;
    std::optional<SequenceEnd> end;
  };

  bool streams() const { return !options_.json; }

  void add(std::size_t prompt, const std::string& text) {
    if (text.empty()) return;
    if (streams() && prompt == next_) return write_out(text);
    answers_[prompt].text += text;
  }

  void finish_next() {
    Answer& answer = answers_[next_];
    write_out((options_.json ? json_line(options_.prompts[next_], answer) : answer.text) + "\n");
    answer.text.clear();
    if (++next_ == answers_.size() || !streams()) return;
    write_out(std::exchange(answers_[next_].text, {}));
  }

  static std::string json_line(const Prompt& prompt, const Answer& answer) {
    nlohmann::ordered_json line;
    if (prompt.messages.empty()) {
      line["prompt"] = prompt.text;
    } else {
      line["messages"] = nlohmann::json::array();
      for (const auto& message : prompt.messages)
        line["messages"].push_back({{"role", message.role}, {"content", message.text}});
    }
    line["text"] = answer.text;
    line["tokens"] = answer.tokens;
    line["end"] = *answer.end == SequenceEnd::end_of_text ? "end of text" : "length";
    return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }

  const GenerateOptions& options_;
  std::vector<Answer> answers_;
  std::size_t next_ = 0;  // to print
  std::int64_t tokens_ = 0;
};

double mebibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// What each device would hold. Throws Error also where the machine has too little memory for it.
void dry_run(const GenerateOptions& options, const GenerationJob& job, const std::vector<std::string>& notes) {
  std::optional<GenerationEstimate> estimate;
  placing_errors(options.places, [&] { estimate = estimate_generation(job); });
  fmt::print("{} of {} at the same time, at most {} positions each\n", counted(job.sequences, "prompt"), options.prompts.size(),
             job.positions);
  fmt::print("{:>6} {:>5} {:>4} {:>7} {:>11} {:>15} {:>9} {:>10} {:>11}\n", "device", "stage", "rank", "blocks", "parameters",
             "key-value cache", "queues", "workspace", "total MiB");
  for (std::size_t i = 0; i < estimate->devices.size(); ++i) {
    const auto& [rank, use] = estimate->devices[i];
    fmt::print("{:>6} {:>5} {:>4} {:>7} {:>11.1f} {:>15.1f} {:>9.1f} {:>10.1f} {:>11.1f}\n", i, rank.pp, rank.tp,
               estimate->blocks[static_cast<std::size_t>(rank.pp)].size(), mebibytes(use.parameters), mebibytes(use.cache),
               mebibytes(use.queues), mebibytes(use.workspace), mebibytes(use.total()));
  }
  for (const auto& note : notes) print_note(note);
  if (estimate->shortage) throw Error(*estimate->shortage);
}

void tell_speed(std::int64_t tokens, double seconds) {
  print_note(fmt::format("{} in {:.2f} s, {:.1f} tokens/s", counted(tokens, "token"), seconds,
                         seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0));
}

void generate(Generator& generator, const GenerateOptions& options, const OpenPrompts& open) {
  TextPrinter printer(options, open);
  const auto start = std::chrono::steady_clock::now();
  decode_prompts(generator, open.prompts, open.decoding, printer);
  tell_speed(printer.tokens(), std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

}  // namespace

int run_generate(const GenerateOptions& options) {
  std::vector<std::string> notes = options.notes;
  OpenPrompts open;
  placing_errors(options.places, [&] { open = open_prompts(options, notes); });
  GenerationJob job = make_job(options, open);
  if (options.dry_run) {
    dry_run(options, job, notes);
    return 0;
  }
  placing_errors(options.places, [&] { job.weights = stored_weights(job.config, options.model); });
  std::unique_ptr<Generator> generator;
  placing_errors(options.places, [&] { generator = std::make_unique<Generator>(job); });
  job.weights = nullptr;
  for (const auto& note : notes) print_note(note);
  try {
    generate(*generator, options, open);
  } catch (const RunFailed& failure) {
    print_error(failure.what(), failure.kind());
    if (!failure.everything_stopped()) {  // threads that still run cannot be joined
      std::fflush(nullptr);
      std::_Exit(exit_status(failure.kind()));
    }
    return exit_status(failure.kind());
  }
  return 0;
}

}  // namespace pipetrain
