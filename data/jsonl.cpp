#include "data/jsonl.hpp"

#include <fmt/format.h>

#include <cassert>
#include <span>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "data/jsonl_row.hpp"
#include "files/mapped_file.hpp"

namespace pipetrain {

namespace {

// Lines of a file, each one JSON object. A row is named by the offset of its first byte.
class JsonlFile {
 public:
  explicit JsonlFile(const std::filesystem::path& path) : file_(path) {}

  // The offset of the first row at or after `offset`, or -1. Lines of white space are no rows.
  std::int64_t next_row(std::int64_t offset) const {
    const std::string_view bytes = file_.bytes();
    if (offset == 0 && bytes.starts_with("\xEF\xBB\xBF")) offset = 3;  // a byte order mark
    const std::size_t row = bytes.find_first_not_of(" \t\r\n", static_cast<std::size_t>(offset));
    return row == std::string_view::npos ? -1 : static_cast<std::int64_t>(row);
  }

  std::int64_t end_of_row(std::int64_t row) const {
    const std::size_t newline = file_.bytes().find('\n', static_cast<std::size_t>(row));
    return static_cast<std::int64_t>(newline == std::string_view::npos ? file_.bytes().size() : newline);
  }

  // Valid until this thread parses its next row. `ids` takes as many of the row's ids as it has places for.
  Row parse(std::int64_t row, std::span<std::int32_t> ids, std::int64_t vocabulary) const {
    const std::int64_t length = end_of_row(row) - row;
    const std::string_view bytes = file_.bytes().substr(static_cast<std::size_t>(row), static_cast<std::size_t>(length));
    try {
      return parse_row(bytes, ids, vocabulary);
    } catch (const RowFault& fault) {
      fail(row, fault.why);
    }
  }

  [[noreturn]] void fail(std::int64_t row, const std::string& why) const {
    throw Error(ErrorKind::input, fmt::format("{}: {}", file_.where(row), why));
  }

  std::string_view text_of(std::int64_t row) const {
    const Row fields = parse(row, {}, 0);
    if (!fields.text) fail(row, R"(this row has "input_ids", but the rows before it have "text"; keep one kind in a file)");
    return *fields.text;
  }

  std::int64_t size() const { return static_cast<std::int64_t>(file_.bytes().size()); }
  void expect_random_reads() const { file_.expect_random_reads(); }
  std::string where(std::int64_t row) const { return file_.where(row); }

 private:
  MappedFile file_;
};

class JsonlIds : public Dataset {
 public:
  JsonlIds(const std::filesystem::path& path, std::int64_t length, std::int64_t vocabulary)
      : Dataset(length), file_(path), vocabulary_(vocabulary) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(length) + 1);
    for (std::int64_t row = file_.next_row(0); row >= 0; row = file_.next_row(file_.end_of_row(row))) {
      read_row(row, ids);
      content_.add(ids.data(), ids.size() * sizeof ids[0]);
      rows_.push_back(row);
    }
    file_.expect_random_reads();
  }

  std::int64_t size() const override { return std::ssize(rows_); }

  using Dataset::read;
  void read(std::int64_t index, Sample& sample) const override {
    assert(index >= 0);
    sample.ids.resize(static_cast<std::size_t>(sequence_length()) + 1);
    read_row(rows_[static_cast<std::size_t>(index % size())], sample.ids);
    label_with_next_ids(sample);
    sample.documents.clear();
  }

  std::uint64_t content() const override { return content_.value(); }

 private:
  void read_row(std::int64_t row, std::span<std::int32_t> ids) const {
    const Row fields = file_.parse(row, ids, vocabulary_);
    if (!fields.ids)
      file_.fail(row, R"(this row has "text", but the rows before it have "input_ids"; keep one kind in a file)");
    if (*fields.ids != sequence_length() + 1)
      file_.fail(row, fmt::format("this row has {} input_ids; with sequence length {} every row takes {} (seq-len + 1)",
                                  *fields.ids, sequence_length(), sequence_length() + 1));
    if (fields.wrong_id) file_.fail(row, fmt::format("input_ids[{}] is {}", fields.wrong_id->first, fields.wrong_id->second));
  }

  JsonlFile file_;
  std::int64_t vocabulary_;
  std::vector<std::int64_t> rows_;
  Checksum content_;
};

class JsonlText : public TokenStream {
 public:
  JsonlText(const std::filesystem::path& path, std::int64_t vocabulary) : file_(path), marker_(end_of_document(vocabulary)) {
    for (std::int64_t row = file_.next_row(0); row >= 0; row = file_.next_row(file_.end_of_row(row))) {
      const std::string_view text = file_.text_of(row);
      if (text.empty()) continue;
      check(row, text, vocabulary);
      rows_.push_back(row);
      joints_.add(static_cast<std::int64_t>(text.size()));
      content_.add(text.size());
      content_.add(text.data(), text.size());
    }
    if (joints_.empty())
      throw Error(ErrorKind::input, fmt::format("{}: the text of every row is empty; give rows with text", path.string()));
    file_.expect_random_reads();
  }

  std::int64_t size() const override { return joints_.size(); }
  std::uint64_t content(std::int64_t) const override { return content_.value(); }

  void read(std::int64_t first, std::span<std::int32_t> tokens) const override {
    joints_.read(first, tokens, marker_, [this](std::size_t run, std::int64_t offset, std::span<std::int32_t> part) {
      const std::string_view text = file_.text_of(rows_[run]);
      if (text.size() < static_cast<std::size_t>(offset) + part.size())
        file_.fail(rows_[run], "this row changed while it was in use; leave data files alone during a run");
      std::transform(text.begin() + offset, text.begin() + offset + std::ssize(part), part.begin(),
                     [](char c) { return static_cast<unsigned char>(c); });
    });
  }

 private:
  void check(std::int64_t row, std::string_view text, std::int64_t vocabulary) const {
    if (vocabulary >= 256) return;
    for (const char c : text)
      if (static_cast<unsigned char>(c) >= vocabulary)
        file_.fail(row,
                   fmt::format("the byte {} is not below the vocabulary of {}; text is read as bytes, so take a model with "
                               "a vocabulary of 256 or more",
                               static_cast<unsigned char>(c), vocabulary));
  }

  JsonlFile file_;
  std::int32_t marker_;
  std::vector<std::int64_t> rows_;
  Joints joints_;
  Checksum content_;
};

}  // namespace

struct JsonlTexts::File : JsonlFile {
  using JsonlFile::JsonlFile;
};

JsonlTexts::JsonlTexts(const std::filesystem::path& path) : file_(std::make_unique<File>(path)) {}
JsonlTexts::~JsonlTexts() = default;

std::int64_t JsonlTexts::size() const { return file_->size(); }

std::int64_t JsonlTexts::end_of_part(std::int64_t begin, std::int64_t bytes) const {
  return begin + bytes >= size() ? size() : file_->end_of_row(begin + bytes);
}

void JsonlTexts::read_part(std::int64_t begin, std::int64_t end, const std::function<void(std::string_view)>& take) const {
  for (std::int64_t row = file_->next_row(begin); row >= 0 && row < end; row = file_->next_row(file_->end_of_row(row)))
    if (const std::string_view text = file_->text_of(row); !text.empty()) take(text);
}

JsonlKind peek_jsonl(const std::filesystem::path& path) {
  const JsonlFile file(path);
  const std::int64_t row = file.next_row(0);
  if (row < 0) throw Error(ErrorKind::input, fmt::format("{}: has no rows; give a file with data in it", path.string()));
  const Row fields = file.parse(row, {}, 0);
  JsonlKind kind;
  kind.has_ids = fields.ids.has_value();
  kind.ids = fields.ids.value_or(0);
  kind.first_row = file.where(row);
  return kind;
}

std::unique_ptr<TokenStream> open_jsonl_text(const std::filesystem::path& path, std::int64_t vocabulary) {
  return std::make_unique<JsonlText>(path, vocabulary);
}

std::unique_ptr<Dataset> open_jsonl_ids(const std::filesystem::path& path, std::int64_t sequence_length,
                                        std::int64_t vocabulary) {
  return std::make_unique<JsonlIds>(path, sequence_length, vocabulary);
}

}  // namespace pipetrain
