#include "data/dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <thread>
#include <utility>

#include "core/error.hpp"
#include "data/formats.hpp"
#include "data/jsonl.hpp"
#include "data/mixture.hpp"
#include "data/tokenize_files.hpp"

namespace pipetrain {

namespace fs = std::filesystem;

namespace {

struct InputFile {
  fs::path path;
  const DataFormat* format = nullptr;
  std::optional<JsonlKind> jsonl;  // of JSON lines
  bool has_ids() const { return jsonl && jsonl->has_ids; }
};

std::vector<InputFile> examine(const fs::path& path, const char* setting) {
  std::vector<InputFile> files;
  for (fs::path& file : list_data_files(path, setting)) {
    InputFile& input = files.emplace_back();
    input.path = std::move(file);
    input.format = format_of(input.path);
    if (input.format->kind == DataKind::json_rows) input.jsonl = peek_jsonl(input.path);
  }
  return files;
}

// What is wrong with a length, or nothing.
std::string wrong_length(std::int64_t length, std::int64_t max_positions) {
  if (length < 1) return "a sample needs at least 2 tokens, one to read and one to predict";
  if (max_positions > 0 && length > max_positions)
    return fmt::format("a sequence of {} is longer than the {} positions of the model; give shorter sequences", length,
                       max_positions);
  return "";
}

std::int64_t choose_sequence_length(const DatasetOptions& options, const std::vector<std::vector<InputFile>>& inputs) {
  const auto check = [&](std::int64_t length, const std::string& given) {
    const std::string why = wrong_length(length, options.max_positions);
    if (!why.empty()) throw Error(ErrorKind::input, {"seq-len", given}, why);
    return length;
  };
  if (options.sequence_length != 0) return check(options.sequence_length, std::to_string(options.sequence_length));
  for (const auto& files : inputs) {
    for (const InputFile& file : files) {
      if (!file.has_ids()) continue;
      const std::string why = wrong_length(file.jsonl->ids - 1, options.max_positions);
      if (!why.empty()) throw Error(ErrorKind::input, fmt::format("{}: {}", file.jsonl->first_row, why));
      return file.jsonl->ids - 1;
    }
  }
  if (options.default_sequence_length < 1)
    throw Error(ErrorKind::input, {"seq-len", ""}, "neither the model nor the data says how long a sequence is; give it");
  return check(options.default_sequence_length, "");
}

// Opens the files of one input. Packs neighbouring files of documents together, so that short files are not lost.
class InputOpener {
 public:
  InputOpener(const DatasetOptions& options, const Tokenizer* tokenizer, std::int64_t length, std::string name)
      : options_(options), tokenizer_(tokenizer), length_(length), name_(std::move(name)) {}

  std::unique_ptr<Dataset> open(const std::vector<InputFile>& files) {
    for (const InputFile& file : files) {
      if (file.has_ids()) {
        pack_documents();
        parts_.push_back(open_jsonl_ids(file.path, length_, options_.vocabulary));
      } else if (file.format->kind == DataKind::tokens) {
        finish_texts();
        add(file.format->open(file.path, options_.vocabulary), false);
      } else if (tokenizer_ != nullptr) {
        texts_.push_back(file.path);
      } else {
        add(file.jsonl ? open_jsonl_text(file.path, options_.vocabulary) : open_text_file(file.path, options_.vocabulary),
            true);
      }
    }
    pack_documents();
    return concatenate(std::move(parts_));
  }

 private:
  // Documents of bytes get a marker between them; documents of ids contain their end-of-text id.
  void add(std::unique_ptr<TokenStream> stream, bool with_marker) {
    if (with_marker != with_marker_) pack_streams();
    with_marker_ = with_marker;
    streams_.push_back(std::move(stream));
  }
  void finish_texts() {
    const int threads = options_.threads > 0 ? options_.threads : static_cast<int>(std::thread::hardware_concurrency());
    if (!texts_.empty()) add(tokenized_in_memory(std::exchange(texts_, {}), *tokenizer_, threads), false);
  }
  void pack_streams() {
    if (streams_.empty()) return;
    const auto marker = with_marker_ ? std::optional(end_of_document(options_.vocabulary)) : std::nullopt;
    parts_.push_back(pack(std::exchange(streams_, {}), length_, marker, name_));
  }
  void pack_documents() {
    finish_texts();
    pack_streams();
  }

  const DatasetOptions& options_;
  const Tokenizer* tokenizer_;
  std::int64_t length_;
  std::string name_;
  std::vector<std::unique_ptr<Dataset>> parts_;
  std::vector<std::unique_ptr<TokenStream>> streams_;  // all with a marker between, or none
  std::vector<fs::path> texts_;                        // to tokenize together
  bool with_marker_ = true;
};

// Null where bytes are tokens.
std::unique_ptr<Tokenizer> open_text_tokenizer(const DatasetOptions& options) {
  if (options.tokenizer.empty()) return nullptr;
  auto tokenizer = open_tokenizer(options.tokenizer);
  if (tokenizer->vocabulary() > options.vocabulary)
    throw Error(ErrorKind::input, {"tokenizer", options.tokenizer.string()},
                fmt::format("its ids go up to {}, but the model's vocabulary has {}; give the model's own tokenizer",
                            tokenizer->vocabulary() - 1, options.vocabulary));
  return tokenizer;
}

std::unique_ptr<Dataset> open_inside_text(const DatasetOptions& options, const Tokenizer* tokenizer) {
  const std::string name = "the text that ships inside";
  std::vector<std::unique_ptr<TokenStream>> documents;
  documents.push_back(tokenizer != nullptr ? tokenized_in_memory(inside_text(), *tokenizer)
                                           : text_in_memory(inside_text(), name, options.vocabulary));
  return pack(std::move(documents), choose_sequence_length(options, {}), std::nullopt, name);
}

}  // namespace

std::vector<std::int32_t> Dataset::read(std::int64_t index) const {
  Sample sample;
  read(index, sample);
  sample.ids.push_back(sample.labels.back());
  return std::move(sample.ids);
}

std::vector<std::int32_t> Dataset::documents(std::int64_t index) const {
  Sample sample;
  read(index, sample);
  return std::move(sample.documents);
}

DataInput parse_data_input(std::string_view text, const char* setting) {
  const std::size_t colon = text.rfind(':');
  std::error_code ignored;
  if (colon == std::string_view::npos || fs::exists(fs::path(text), ignored)) return {fs::path(text), std::nullopt};
  const std::string_view number = text.substr(colon + 1);
  double weight = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), weight);
  if (error != std::errc() || end != number.data() + number.size() || !std::isfinite(weight) || weight <= 0 || colon == 0)
    throw Error(
        ErrorKind::input, {setting, std::string(text)},
        fmt::format("there is no such file, and '{}' is no weight; write PATH or PATH:WEIGHT with a weight above 0", number));
  return {fs::path(text.substr(0, colon)), weight};
}

std::unique_ptr<Dataset> open_dataset(const DatasetOptions& options) {
  const std::unique_ptr<Tokenizer> tokenizer = open_text_tokenizer(options);
  if (options.inputs.empty()) return open_inside_text(options, tokenizer.get());
  std::vector<std::vector<InputFile>> inputs;
  std::vector<double> weights;
  bool weighted = false;
  for (const DataInput& input : options.inputs) {
    inputs.push_back(examine(input.path, options.setting));
    weights.push_back(input.weight.value_or(1));
    weighted = weighted || input.weight;
  }
  const std::int64_t length = choose_sequence_length(options, inputs);
  std::vector<std::unique_ptr<Dataset>> parts;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    parts.push_back(InputOpener(options, tokenizer.get(), length, options.inputs[i].path.string()).open(inputs[i]));
  if (!weighted || parts.size() == 1) return concatenate(std::move(parts));
  return mix(std::move(parts), weights, options.shuffle, options.seed);
}

}  // namespace pipetrain
