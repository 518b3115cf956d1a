#include "data/rows/jsonl.hpp"

#include <fmt/format.h>

#include <span>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "data/rows/jsonl_file.hpp"
#include "data/rows/row_limits.hpp"

namespace pipetrain {

namespace {

class JsonlText : public TokenStream {
 public:
  JsonlText(const std::filesystem::path& path, const RowWanted& wanted, std::int64_t vocabulary)
      : file_(path, wanted), wanted_(wanted), marker_(end_of_document(vocabulary)) {
    std::string joined;
    file_.each_row(0, file_.size(), [&](std::int64_t row) {
      const std::string_view text = text_of(row, joined);
      if (text.empty()) return;
      check(row, text, vocabulary);
      rows_.push_back(row);
      joints_.add(static_cast<std::int64_t>(text.size()));
      content_.add(text.size());
      content_.add(text.data(), text.size());
    });
    if (joints_.empty())
      throw Error(ErrorKind::input, fmt::format("{}: the text of every row is empty; give rows with text", path.string()));
    wanted_.unread = nullptr;  // every row has been reported
    file_.expect_random_reads();
  }

  std::int64_t size() const override { return joints_.size(); }
  std::uint64_t content(std::int64_t) const override { return content_.value(); }
  void add_document_begins(std::int64_t first, std::int64_t last, std::vector<std::int64_t>& begins) const override {
    joints_.add_begins(first, last, begins);
  }

  void read(std::int64_t first, std::span<std::int32_t> tokens) const override {
    std::string joined;
    joints_.read(first, tokens, marker_, [&](std::size_t run, std::int64_t offset, std::span<std::int32_t> part) {
      const std::string_view text = text_of(rows_[run], joined);
      if (text.size() < static_cast<std::size_t>(offset) + part.size())
        file_.fail(rows_[run], "this row changed while it was in use; leave data files alone during a run");
      std::transform(text.begin() + offset, text.begin() + offset + std::ssize(part), part.begin(),
                     [](char c) { return static_cast<unsigned char>(c); });
    });
  }

 private:
  // Valid until `joined` changes or the next row is parsed.
  std::string_view text_of(std::int64_t row, std::string& joined) const {
    const Row fields = file_.parse(row, wanted_, RowForm::text);
    if (const std::string why = RowLimits{}.wrong_class(fields.label); !why.empty()) file_.fail(row, why);
    if (fields.texts.size() == 1) return fields.texts.front();
    joined = fmt::format("{}", fmt::join(fields.texts, "\n"));
    return joined;
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
  RowWanted wanted_;
  std::int32_t marker_;
  std::vector<std::int64_t> rows_;
  Joints joints_;
  Checksum content_;
};

}  // namespace

JsonlKind peek_jsonl(const std::filesystem::path& path, const RowWanted& wanted) {
  const JsonlFile file(path, wanted, 1);
  const std::int64_t row = file.next_row(0);
  if (row < 0) throw Error(ErrorKind::input, fmt::format("{}: has no rows; give a file with data in it", path.string()));
  const Row fields = file.parse(row, wanted);
  return {fields.form, fields.label.has_value(), file.where(row)};
}

std::unique_ptr<TokenStream> open_jsonl_text(const std::filesystem::path& path, const RowWanted& wanted,
                                             std::int64_t vocabulary) {
  return std::make_unique<JsonlText>(path, wanted, vocabulary);
}

}  // namespace pipetrain
