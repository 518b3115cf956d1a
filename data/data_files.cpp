#include "data/data_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "core/error.hpp"
#include "data/byte_tokenizer.hpp"
#include "data/formats/formats.hpp"
#include "data/rows/jsonl.hpp"
#include "data/rows/parquet.hpp"
#include "data/samples/mixture.hpp"
#include "data/tokenize_files.hpp"
#include "data/tokenized_rows.hpp"

namespace pipetrain {

struct DataFile {
  std::filesystem::path path;
  const DataFormat* format = nullptr;
  std::optional<JsonlKind> rows;  // set for files of rows

  bool has_ids() const { return rows && rows->form == RowForm::ids; }
  // Returns true if the rows say which of their tokens count.
  bool has_answers() const { return rows && (rows->form == RowForm::answer || rows->form == RowForm::messages); }
};

DataFiles::DataFiles(const DatasetOptions& options, const TextReaders& readers, const std::filesystem::path& path)
    : options_(options), tokenizer_(readers.tokenizer), unread_(readers.unread), name_(path.string()) {
  std::vector<DataFile> files;  // all are checked before any is read
  for (std::filesystem::path& file : list_data_files(path, options.setting)) {
    DataFile& one = files.emplace_back();
    one.path = std::move(file);
    one.format = format_of(one.path);
    if (options_.preferences) check_preferences(one);
    if (one.format->kind == DataKind::rows)
      one.rows = options_.preferences ? JsonlKind{RowForm::answer, false, {}} : peek_jsonl(one.path, wanted());
  }
  if (tokenizer_ == nullptr && std::any_of(files.begin(), files.end(), [&](const DataFile& file) {
        return file.format->kind != DataKind::tokens && !file.has_ids() && (pack_of(file) == Pack::none || file.has_answers());
      }))
    bytes_ = make_byte_tokenizer(options.vocabulary);
  for (const DataFile& file : files) add(file);
  finish_texts();
}

Pack DataFiles::pack_of(const DataFile& file) const {
  const bool is_sample = options_.preferences || options_.classes > 0 || file.has_ids() || file.has_answers();
  return options_.pack.value_or(is_sample ? Pack::none : Pack::documents);
}

void DataFiles::check_preferences(const DataFile& file) const {
  if (file.format->kind != DataKind::rows || is_parquet(file.path))
    throw Error(ErrorKind::input,
                fmt::format("{}: preferences are rows of .jsonl files; give such a file", file.path.string()));
  if (const Pack pack = pack_of(file); pack != Pack::none)
    throw Error(ErrorKind::input, {"pack", name_of(pack)},
                "completions of preferences are samples of their own; leave packing out");
}

void DataFiles::refuse_packing(const DataFile& file) const {
  const bool is_tokens = file.format->kind == DataKind::tokens;
  const Pack pack = pack_of(file);
  if (options_.classes > 0 && (is_tokens || file.format->kind == DataKind::text))
    throw Error(ErrorKind::input,
                fmt::format("{}: has no labels; for classification give rows with \"label\"", file.path.string()));
  if (options_.classes > 0 && pack != Pack::none)
    throw Error(ErrorKind::input, {"pack", name_of(pack)},
                "rows for classification are samples of their own; leave packing out");
  if (is_tokens && pack == Pack::none)
    throw Error(ErrorKind::input, {"pack", name_of(pack)},
                fmt::format("{} is one stream of tokens, not rows; pack documents", file.path.string()));
}

void DataFiles::add(const DataFile& file) {
  refuse_packing(file);
  const Pack pack = pack_of(file);
  const bool is_rows = pack == Pack::none;
  if (file.has_ids()) {
    finish_texts();
    auto table = open_id_rows(file.path, limits(pack), unread_);
    return is_rows ? add_rows(std::move(table)) : add_stream(stream_of_rows(std::move(table)), false);
  }
  if (file.format->kind == DataKind::tokens) {
    finish_texts();
    return add_stream(file.format->open(file.path, options_.vocabulary), false);
  }
  if (tokenizer_ == nullptr && !is_rows && !file.has_answers()) {
    finish_texts();
    return add_stream(
        file.rows ? open_jsonl_text(file.path, wanted(), options_.vocabulary) : open_text_file(file.path, options_.vocabulary),
        true);
  }
  const bool as_rows = is_rows || file.has_answers();
  if (as_rows != texts_are_rows_ || pack != texts_pack_) finish_texts();
  texts_are_rows_ = as_rows;
  texts_pack_ = pack;
  texts_.push_back(file.path);
}

void DataFiles::finish_texts() {
  if (texts_.empty()) return;
  const std::vector<std::filesystem::path> files = std::exchange(texts_, {});
  if (!texts_are_rows_) return add_stream(tokenized_in_memory(files, reading()), false);
  auto table = tokenize_rows(files, reading(), limits(texts_pack_));
  texts_pack_ == Pack::none ? add_rows(std::move(table)) : add_stream(stream_of_rows(std::move(table)), false);
}

void DataFiles::add_rows(std::shared_ptr<const RowTable> rows) { groups_.push_back({std::move(rows), {}, false}); }

// Byte streams get a marker between documents; id streams already have an end token in each.
void DataFiles::add_stream(std::unique_ptr<TokenStream> stream, bool with_marker) {
  if (groups_.empty() || groups_.back().rows || groups_.back().with_marker != with_marker)
    groups_.push_back({nullptr, {}, with_marker});
  groups_.back().streams.push_back(std::move(stream));
}

RowLimits DataFiles::limits(Pack pack) const {
  RowLimits limits{.vocabulary = options_.vocabulary, .classes = options_.classes, .preferences = options_.preferences};
  if (pack == Pack::none) {
    limits.sequence_length = options_.sequence_length.value_or(0);
    limits.max_positions = options_.max_positions;
  }
  return limits;
}

RowWanted DataFiles::wanted() const {
  return {.text_keys = options_.text_keys, .classifies = options_.classes > 0, .unread = unread_};
}

TextReading DataFiles::reading() const {
  TextReading reading{.tokenizer = tokenizer_ != nullptr ? tokenizer_ : bytes_.get()};
  reading.threads = options_.threads > 0 ? options_.threads : static_cast<int>(std::thread::hardware_concurrency());
  reading.text_keys = options_.text_keys;
  reading.unread = unread_;
  reading.chat_template = options_.chat_template;
  if (tokenizer_ == nullptr) reading.between_texts = "\n";
  if (tokenizer_ != nullptr) reading.vocabulary = options_.vocabulary;
  return reading;
}

// A completion may also meet the prompt of another row: see MismatchedSamples.
std::int64_t DataFiles::most_tokens(const RowTable& rows) const {
  if (!options_.preferences || options_.preferences->form != PreferenceForm::labelled) return rows.most_tokens();
  std::int64_t prompt = 0, completion = 0;
  for (std::int64_t row = 0; row < rows.rows(); ++row) {
    const std::int64_t own = rows.completed(row).prompt;
    prompt = std::max(prompt, own);
    completion = std::max(completion, rows.tokens(row) - own);
  }
  return prompt + completion;
}

std::int64_t DataFiles::longest_row() const {
  std::int64_t longest = 0;
  for (const FileGroup& group : groups_)
    if (group.rows) longest = std::max(longest, limits(Pack::none).ids_of(most_tokens(*group.rows)));
  return options_.max_positions > 0 ? std::min(longest, options_.max_positions) : longest;
}

std::unique_ptr<Dataset> DataFiles::dataset(std::int64_t sequence_length) {
  std::vector<std::unique_ptr<Dataset>> parts;
  for (FileGroup& group : groups_) {
    if (group.rows) {
      parts.push_back(dataset_of_rows(group.rows, sequence_length, limits(Pack::none)));
      continue;
    }
    const auto marker = group.with_marker ? std::optional(end_of_document(options_.vocabulary)) : std::nullopt;
    parts.push_back(pack(std::move(group.streams), {sequence_length, marker, options_.pack == Pack::isolated}, name_));
  }
  return concatenate(std::move(parts));
}

}  // namespace pipetrain
