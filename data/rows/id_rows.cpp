
#include <algorithm>

#include "core/checksum.hpp"
#include "data/rows/jsonl_file.hpp"
#include "data/rows/row_table.hpp"

namespace pipetrain {
namespace {

class IdRows : public RowTable {
 public:
  IdRows(const std::filesystem::path& path, const RowLimits& limits, UnreadKeys* unread)
      : file_(path), limits_(limits), unread_(unread) {
    Checked checked;
    file_.each_row(0, file_.size(), [&](std::int64_t row) { add(row, checked); });
    content_ = checked.content.value();
    unread_ = nullptr;  // every row has been reported
    file_.expect_random_reads();
  }

  std::int64_t rows() const override { return std::ssize(rows_); }
  std::int64_t tokens(std::int64_t row) const override { return at(row).tokens; }
  std::int64_t counted(std::int64_t row) const override { return at(row).counted; }
  std::uint64_t content() const override { return content_; }

  void read(std::int64_t row, std::vector<std::int32_t>& tokens, std::vector<std::int32_t>& labels) const override {
    const RowLocation& location = at(row);
    tokens.resize(static_cast<std::size_t>(location.tokens));
    labels.resize(tokens.size());
    read_row(location.offset, tokens, labels);
  }

 private:
  struct RowLocation {
    std::int64_t offset;
    std::int32_t tokens, counted;
  };
  // The facts that checking the rows collects.
  struct Checked {
    std::vector<std::int32_t> ids, labels;
    Checksum content;
  };

  const RowLocation& at(std::int64_t row) const { return rows_[static_cast<std::size_t>(row)]; }

  void add(std::int64_t row, Checked& checked) {
    const std::int64_t tokens = length_of(row);
    checked.ids.resize(static_cast<std::size_t>(tokens));
    checked.labels.resize(checked.ids.size());
    const bool is_labelled = read_row(row, checked.ids, checked.labels);
    // A file of rows of one length, without labels, must keep the checksum that it had before other rows were supported.
    if (is_labelled || (!rows_.empty() && tokens != rows_.front().tokens))
      checked.content.add(static_cast<std::uint64_t>(tokens));
    checked.content.add(checked.ids.data(), checked.ids.size() * sizeof checked.ids[0]);
    if (is_labelled) checked.content.add(checked.labels.data(), checked.labels.size() * sizeof checked.labels[0]);
    const auto first = checked.labels.begin() + (limits_.classifies() ? 0 : 1);
    const auto counted = std::count_if(first, checked.labels.end(), [](std::int32_t label) { return label >= 0; });
    if (counted == 0) file_.fail(row, "no label of this row counts; give labels to learn, or leave the row out");
    rows_.push_back({row, static_cast<std::int32_t>(tokens), static_cast<std::int32_t>(counted)});
  }

  // Returns the length of a row that is right except possibly for its ids, which are read only if there is room for
  // them. Padding does not count.
  std::int64_t length_of(std::int64_t row) const {
    const Row fields = file_.parse(row, wanted({}, {}), RowForm::ids);
    const std::string why = limits_.wrong_length(fields.kept, "input_ids");
    if (!why.empty()) file_.fail(row, fields.wrong ? fields.wrong->line() : why);
    return fields.kept;
  }

  // Returns true if the row itself says which tokens count.
  bool read_row(std::int64_t row, std::vector<std::int32_t>& ids, std::vector<std::int32_t>& labels) const {
    const Row fields = file_.parse(row, wanted(ids, labels), RowForm::ids);
    if (fields.kept != std::ssize(ids))
      file_.fail(row, "this row changed while it was in use; leave data files alone during a run");
    if (fields.wrong) file_.fail(row, fields.wrong->line());
    if (const std::string why = limits_.wrong_class(fields.label); !why.empty()) file_.fail(row, why);
    if (limits_.classifies()) {
      std::fill(labels.begin(), labels.end(), not_counted);
      labels.back() = static_cast<std::int32_t>(*fields.label);
    } else if (!fields.has_labels) {
      labels = ids;
    }
    for (std::size_t i = 0; i < fields.left_out.size(); ++i)
      if (fields.left_out[i]) labels[i] = not_counted;
    return limits_.classifies() || fields.has_labels || !fields.left_out.empty();
  }

  RowWanted wanted(std::span<std::int32_t> ids, std::span<std::int32_t> labels) const {
    return {.unread = unread_, .ids = ids, .labels = labels, .vocabulary = limits_.vocabulary};
  }

  JsonlFile file_;
  RowLimits limits_;
  UnreadKeys* unread_;  // null once all rows have been checked
  std::vector<RowLocation> rows_;
  std::uint64_t content_ = 0;
};

}  // namespace

std::shared_ptr<const RowTable> open_id_rows(const std::filesystem::path& path, const RowLimits& limits, UnreadKeys* unread) {
  return std::make_shared<IdRows>(path, limits, unread);
}

}  // namespace pipetrain
