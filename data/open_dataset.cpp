#include "data/open_dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.hpp"
#include "core/parsing.hpp"
#include "data/data_files.hpp"
#include "data/rows/row_keys.hpp"
#include "data/samples/mixture.hpp"
#include "data/tokenize_files.hpp"

namespace pipetrain {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail_setting(const std::string& name, const std::string& value, const std::string& why) {
  throw Error(ErrorKind::input, {name, value}, why);
}

// Returns what is wrong with a length, or nothing.
std::string wrong_length(std::int64_t length, std::int64_t max_positions) {
  if (length < 1) return "a sample needs at least 2 tokens, one to read and one to predict";
  if (max_positions > 0 && length > max_positions)
    return fmt::format("a sequence of {} is longer than the {} positions of the model; give shorter sequences", length,
                       max_positions);
  return "";
}

std::int64_t checked_length(std::int64_t length, const DatasetOptions& options) {
  const std::string why = wrong_length(length, options.max_positions);
  if (!why.empty()) throw Error(ErrorKind::input, {"seq-len", options.sequence_length ? std::to_string(length) : ""}, why);
  return length;
}

// longest: the longest row that is a sample, 0 if there is none.
std::int64_t choose_sequence_length(const DatasetOptions& options, std::int64_t longest) {
  if (options.sequence_length) return checked_length(*options.sequence_length, options);
  if (longest > 0) return longest;
  if (options.default_sequence_length < 1)
    throw Error(ErrorKind::input, {"seq-len", ""}, "neither the model nor the data says how long a sequence is; give it");
  return checked_length(options.default_sequence_length, options);
}

// Returns null if bytes are tokens.
std::unique_ptr<Tokenizer> open_text_tokenizer(const DatasetOptions& options) {
  if (options.tokenizer.empty()) return nullptr;
  auto tokenizer = open_tokenizer(options.tokenizer);
  if (tokenizer->own_vocabulary() > options.vocabulary)
    throw Error(ErrorKind::input, {"tokenizer", options.tokenizer.string()},
                fmt::format("its ids go up to {}, but the model's vocabulary has {}; give the model's own tokenizer",
                            tokenizer->own_vocabulary() - 1, options.vocabulary));
  return tokenizer;
}

std::unique_ptr<Dataset> open_inside_text(const DatasetOptions& options, const Tokenizer* tokenizer) {
  const std::string name = "the built-in text";
  if (options.preferences)
    throw Error(ErrorKind::input, {"data", ""}, name + " has no preferences; give rows with completions that people judged");
  if (options.classes > 0) throw Error(ErrorKind::input, {"data", ""}, name + " has no labels; give rows with \"label\"");
  if (options.pack == Pack::none)
    fail_setting("pack", "none", name + " is one document, too long for a sample; pack documents");
  std::vector<std::unique_ptr<TokenStream>> documents;
  documents.push_back(tokenizer != nullptr ? tokenized_in_memory(inside_text(), *tokenizer, options.vocabulary)
                                           : text_in_memory(inside_text(), name, options.vocabulary));
  return pack(std::move(documents), {choose_sequence_length(options, 0), {}, options.pack == Pack::isolated}, name);
}

}  // namespace

const std::vector<std::string>& pack_names() {
  static const std::vector<std::string> names = {"none", "documents", "isolated"};
  return names;
}

const std::string& name_of(Pack pack) { return pack_names()[static_cast<std::size_t>(pack)]; }

DataInput parse_data_input(std::string_view text, const char* setting) {
  const std::size_t colon = text.rfind(':');
  std::error_code ignored;
  if (colon == std::string_view::npos || fs::exists(fs::path(text), ignored)) return {fs::path(text), std::nullopt};
  const std::string_view number = text.substr(colon + 1);
  const double weight = number_from<double>(number).value_or(0);
  if (!std::isfinite(weight) || weight <= 0 || colon == 0)
    fail_setting(setting, std::string(text),
                 fmt::format("there is no such file, and '{}' is not a weight; write PATH or PATH:WEIGHT with a weight above 0",
                             number));
  return {fs::path(text.substr(0, colon)), weight};
}

std::unique_ptr<Dataset> open_dataset(const DatasetOptions& options) {
  const std::unique_ptr<Tokenizer> tokenizer = open_text_tokenizer(options);
  if (options.inputs.empty()) return open_inside_text(options, tokenizer.get());
  if (options.sequence_length) checked_length(*options.sequence_length, options);
  UnreadKeys unread;
  std::vector<DataFiles> inputs;
  std::vector<double> weights;
  bool weighted = false;
  std::int64_t longest = 0;
  for (const DataInput& input : options.inputs) {
    inputs.emplace_back(options, DataFiles::TextReaders{tokenizer.get(), &unread}, input.path);
    longest = std::max(longest, inputs.back().longest_row());
    weights.push_back(input.weight.value_or(1));
    weighted = weighted || input.weight;
  }
  if (weighted && options.preferences && options.preferences->form == PreferenceForm::pairs)
    throw Error(ErrorKind::input, {options.setting, ""},
                "weights draw samples one by one, and the completions of a pair belong together; leave the weights out");
  const std::int64_t length = choose_sequence_length(options, longest);
  std::vector<std::unique_ptr<Dataset>> parts;
  for (DataFiles& input : inputs) parts.push_back(input.dataset(length));
  if (const std::string note = unread.note(); options.notes != nullptr && !note.empty())
    options.notes->push_back(fmt::format("{}: {}", options.setting, note));
  if (!weighted || parts.size() == 1) return concatenate(std::move(parts));
  return mix(std::move(parts), weights, options.shuffle, options.seed);
}

}  // namespace pipetrain
