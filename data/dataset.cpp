#include "data/dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "core/error.hpp"
#include "data/jsonl.hpp"
#include "data/mixture.hpp"

namespace pipetrain {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail_data(const std::string& input, const std::string& why) {
  throw Error(ErrorKind::input, {"data", input}, why);
}

bool readable_kind(const fs::path& path) { return path.extension() == ".txt" || path.extension() == ".jsonl"; }

// The files of one input: itself, or what a folder holds, sorted by name. Other kinds of files in a folder are passed over.
std::vector<fs::path> list_files(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) fail_data(path.string(), "there is no such file or folder; check the path");
  if (!fs::is_directory(status)) {
    if (readable_kind(path)) return {path};
    fail_data(path.string(), "a file of this kind cannot be read; give .txt, .jsonl or a folder of such files");
  }
  std::vector<fs::path> files;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error))
    if (readable_kind(entry->path()) && !entry->is_directory()) files.push_back(entry->path());
  if (error) fail_data(path.string(), fmt::format("the folder cannot be read ({})", error.message()));
  if (files.empty()) fail_data(path.string(), "the folder holds no .txt or .jsonl file; give a folder with data");
  std::sort(files.begin(), files.end());
  return files;
}

struct InputFile {
  fs::path path;
  std::optional<JsonlKind> jsonl;  // empty for text
  bool has_ids() const { return jsonl && jsonl->has_ids; }
};

std::vector<InputFile> examine(const fs::path& path) {
  std::vector<InputFile> files;
  for (fs::path& file : list_files(path)) {
    InputFile& input = files.emplace_back();
    input.path = std::move(file);
    if (input.path.extension() == ".jsonl") input.jsonl = peek_jsonl(input.path);
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

// Neighbouring files of documents are packed together, so that short files are not lost.
std::unique_ptr<Dataset> open_input(const std::string& name, const std::vector<InputFile>& files, std::int64_t length,
                                    std::int64_t vocabulary) {
  std::vector<std::unique_ptr<Dataset>> parts;
  std::vector<std::unique_ptr<TokenStream>> documents;
  const auto pack_documents = [&] {
    if (!documents.empty()) parts.push_back(pack(std::exchange(documents, {}), length, vocabulary, name));
  };
  for (const InputFile& file : files) {
    if (file.has_ids()) {
      pack_documents();
      parts.push_back(open_jsonl_ids(file.path, length, vocabulary));
    } else {
      documents.push_back(file.jsonl ? open_jsonl_text(file.path, vocabulary) : open_text_file(file.path, vocabulary));
    }
  }
  pack_documents();
  return concatenate(std::move(parts));
}

std::unique_ptr<Dataset> open_inside_text(const DatasetOptions& options) {
  const std::string name = "the text that ships inside";
  std::vector<std::unique_ptr<TokenStream>> documents;
  documents.push_back(text_in_memory(inside_text(), name, options.vocabulary));
  return pack(std::move(documents), choose_sequence_length(options, {}), options.vocabulary, name);
}

}  // namespace

std::vector<std::int32_t> Dataset::read(std::int64_t index) const {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(sequence_length()) + 1);
  read(index, tokens);
  return tokens;
}

DataInput parse_data_input(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  std::error_code ignored;
  if (colon == std::string_view::npos || fs::exists(fs::path(text), ignored)) return {fs::path(text), std::nullopt};
  const std::string_view number = text.substr(colon + 1);
  double weight = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), weight);
  if (error != std::errc() || end != number.data() + number.size() || !std::isfinite(weight) || weight <= 0 || colon == 0)
    fail_data(
        std::string(text),
        fmt::format("there is no such file, and '{}' is no weight; write PATH or PATH:WEIGHT with a weight above 0", number));
  return {fs::path(text.substr(0, colon)), weight};
}

std::unique_ptr<Dataset> open_dataset(const DatasetOptions& options) {
  if (options.inputs.empty()) return open_inside_text(options);
  std::vector<std::vector<InputFile>> inputs;
  std::vector<double> weights;
  bool weighted = false;
  for (const DataInput& input : options.inputs) {
    inputs.push_back(examine(input.path));
    weights.push_back(input.weight.value_or(1));
    weighted = weighted || input.weight;
  }
  const std::int64_t length = choose_sequence_length(options, inputs);
  std::vector<std::unique_ptr<Dataset>> parts;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    parts.push_back(open_input(options.inputs[i].path.string(), inputs[i], length, options.vocabulary));
  if (!weighted || parts.size() == 1) return concatenate(std::move(parts));
  return mix(std::move(parts), weights, options.shuffle, options.seed);
}

}  // namespace pipetrain
