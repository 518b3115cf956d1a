#include "data/jsonl.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <cassert>
#include <optional>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "data/mapped_file.hpp"

namespace pipetrain {

namespace {

namespace dom = simdjson::dom;

struct Row {
  std::optional<std::string_view> text;
  std::optional<dom::array> ids;
};

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

  // Valid until this thread parses its next row.
  Row parse(std::int64_t row) const {
    thread_local dom::parser parser;
    const auto length = static_cast<std::size_t>(end_of_row(row) - row);
    dom::element element;
    const simdjson::error_code error = parser.parse(file_.bytes().data() + row, length).get(element);
    if (error) fail(row, fmt::format("this row is not JSON ({}); {}", describe(error), wanted));
    dom::object object;
    if (element.get(object)) fail(row, fmt::format("this row is not a JSON object; {}", wanted));
    return read_fields(row, object);
  }

  [[noreturn]] void fail(std::int64_t row, const std::string& why) const {
    throw Error(ErrorKind::input, fmt::format("{}: {}", file_.where(row), why));
  }

  void expect_random_reads() const { file_.expect_random_reads(); }
  std::string where(std::int64_t row) const { return file_.where(row); }

 private:
  static constexpr std::string_view wanted = R"(write one row {"text": "..."} or {"input_ids": [...]} a line)";

  static std::string describe(simdjson::error_code error) {
    const std::string text = simdjson::error_message(error);  // "TAPE_ERROR: The JSON document has an improper structure: ..."
    const std::size_t colon = text.find(": ");
    return colon == std::string::npos ? text : text.substr(colon + 2);
  }

  Row read_fields(std::int64_t row, const dom::object& object) const {
    Row fields;
    for (const auto& [key, value] : object) {
      if (key == "label")
        fail(row, R"(rows with "label" (classification) are not built yet; give {"text"} or {"input_ids"} rows)");
      if (key == "text") {
        std::string_view text;
        if (value.get(text)) fail(row, R"("text" is not a string; write {"text": "..."})");
        fields.text = text;
      } else if (key == "input_ids") {
        dom::array ids;
        if (value.get(ids)) fail(row, R"("input_ids" is not an array; write {"input_ids": [1, 2, 3]})");
        fields.ids = ids;
      }
    }
    if (fields.text && fields.ids) fail(row, R"(this row has both "text" and "input_ids"; keep one)");
    if (!fields.text && !fields.ids) fail(row, fmt::format(R"(this row has neither "text" nor "input_ids"; {})", wanted));
    return fields;
  }

  MappedFile file_;
};

std::int32_t token_id(const JsonlFile& file, std::int64_t row, dom::element element, std::size_t place,
                      std::int64_t vocabulary) {
  std::int64_t id = 0;
  if (element.get(id)) {
    // What does not fit 64 signed bits but is an integer is still only too large.
    if (element.type() != dom::element_type::UINT64)
      file.fail(row, fmt::format("input_ids[{}] is {}, not an integer; token ids are integers from 0 to {}", place,
                                 std::string(simdjson::minify(element)), vocabulary - 1));
    id = std::numeric_limits<std::int64_t>::max();
  }
  if (id < 0 || id >= vocabulary)
    file.fail(row, fmt::format("input_ids[{}] is {}, outside the model's vocabulary of {}; token ids go from 0 to {}", place,
                               std::string(simdjson::minify(element)), vocabulary, vocabulary - 1));
  return static_cast<std::int32_t>(id);
}

dom::array ids_of(const JsonlFile& file, std::int64_t row, std::int64_t sequence_length) {
  const Row fields = file.parse(row);
  if (!fields.ids) file.fail(row, R"(this row has "text", but the rows before it have "input_ids"; keep one kind in a file)");
  if (std::int64_t ids = static_cast<std::int64_t>(fields.ids->size()); ids != sequence_length + 1)
    file.fail(row, fmt::format("this row has {} input_ids; with sequence length {} every row takes {} (seq-len + 1)", ids,
                               sequence_length, sequence_length + 1));
  return *fields.ids;
}

class JsonlIds : public Dataset {
 public:
  JsonlIds(const std::filesystem::path& path, std::int64_t length, std::int64_t vocabulary)
      : Dataset(length), file_(path), vocabulary_(vocabulary) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(length) + 1);
    for (std::int64_t row = file_.next_row(0); row >= 0; row = file_.next_row(file_.end_of_row(row))) {
      read_row(row, tokens);
      content_.add(tokens.data(), tokens.size() * sizeof tokens[0]);
      rows_.push_back(row);
    }
    file_.expect_random_reads();
  }

  std::int64_t size() const override { return std::ssize(rows_); }

  using Dataset::read;
  void read(std::int64_t index, std::span<std::int32_t> tokens) const override {
    assert(index >= 0 && std::ssize(tokens) == sequence_length() + 1);
    read_row(rows_[static_cast<std::size_t>(index % size())], tokens);
  }

  std::uint64_t content() const override { return content_.value(); }

 private:
  void read_row(std::int64_t row, std::span<std::int32_t> tokens) const {
    std::size_t place = 0;
    for (const dom::element element : ids_of(file_, row, sequence_length())) {
      tokens[place] = token_id(file_, row, element, place, vocabulary_);
      ++place;
    }
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
      const std::string_view text = text_of(row);
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
      const std::string_view text = text_of(rows_[run]);
      if (text.size() < static_cast<std::size_t>(offset) + part.size())
        file_.fail(rows_[run], "this row changed while it was in use; leave data files alone during a run");
      std::transform(text.begin() + offset, text.begin() + offset + std::ssize(part), part.begin(),
                     [](char c) { return static_cast<unsigned char>(c); });
    });
  }

 private:
  std::string_view text_of(std::int64_t row) const {
    const Row fields = file_.parse(row);
    if (!fields.text)
      file_.fail(row, R"(this row has "input_ids", but the rows before it have "text"; keep one kind in a file)");
    return *fields.text;
  }

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

JsonlKind peek_jsonl(const std::filesystem::path& path) {
  const JsonlFile file(path);
  const std::int64_t row = file.next_row(0);
  if (row < 0) throw Error(ErrorKind::input, fmt::format("{}: has no rows; give a file with data in it", path.string()));
  const Row fields = file.parse(row);
  JsonlKind kind;
  kind.has_ids = fields.ids.has_value();
  kind.ids = kind.has_ids ? static_cast<std::int64_t>(fields.ids->size()) : 0;
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
