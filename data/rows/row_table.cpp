#include "data/rows/row_table.hpp"

#include <algorithm>
#include <cassert>

#include "core/labels/context_label.hpp"

namespace pipetrain {

std::int64_t RowTable::most_tokens() const {
  std::int64_t most = 0;
  for (std::int64_t row = 0; row < rows(); ++row) most = std::max(most, tokens(row));
  return most;
}

namespace {

class RowDataset : public Dataset {
 public:
  RowDataset(std::shared_ptr<const RowTable> table, std::int64_t sequence_length, const RowLimits& limits)
      : Dataset(sequence_length), table_(std::move(table)), limits_(limits) {}

  std::int64_t size() const override { return table_->rows(); }
  std::uint64_t content() const override { return table_->content(); }
  SampleSize measure(std::int64_t index) const override {
    const std::int64_t row = index % size();
    SampleSize size{limits_.ids_of(table_->tokens(row)), table_->counted(row)};
    if (!limits_.preferences) return size;
    const RowTable::Completed completed = table_->completed(row);
    size.prompt = completed.prompt;
    size.desirable = completed.desirable;
    return size;
  }
  int samples_per_row() const override { return limits_.preferences ? limits_.preferences->sequences_per_row() : 1; }
  using Dataset::read;
  void read(std::int64_t index, Sample& sample) const override {
    assert(index >= 0);
    table_->read(index % size(), sample.ids, sample.labels);
    sample.documents.clear();
    if (limits_.classifies()) return;
    if (limits_.preferences && limits_.preferences->counts_context && index % 2 == 0) mark_context(sample);
    sample.ids.pop_back();
    sample.labels.erase(sample.labels.begin());
  }

 private:
  static void mark_context(Sample& sample) {
    for (std::size_t i = 0; i < sample.ids.size(); ++i)
      if (sample.labels[i] < 0) sample.labels[i] = context_label(sample.ids[i]);
  }

  std::shared_ptr<const RowTable> table_;
  RowLimits limits_;
};

class RowStream : public TokenStream {
 public:
  explicit RowStream(std::shared_ptr<const RowTable> table) : table_(std::move(table)) {
    for (std::int64_t row = 0; row < table_->rows(); ++row) joints_.add(table_->tokens(row));
  }

  std::int64_t size() const override { return joints_.size(); }
  std::uint64_t content(std::int64_t) const override { return table_->content(); }
  bool masks() const override { return true; }
  void read(std::int64_t first, std::span<std::int32_t> tokens) const override { read_part(first, tokens, &Row::tokens); }
  void read_labels(std::int64_t first, std::span<std::int32_t> labels) const override {
    read_part(first, labels, &Row::labels);
  }
  void add_document_begins(std::int64_t first, std::int64_t last, std::vector<std::int64_t>& begins) const override {
    joints_.add_begins(first, last, begins);
  }

 private:
  struct Row {
    std::vector<std::int32_t> tokens, labels;
  };
  void read_part(std::int64_t first, std::span<std::int32_t> out, std::vector<std::int32_t> Row::*which) const {
    Row row;
    joints_.read(first, out, 0, [&](std::size_t run, std::int64_t offset, std::span<std::int32_t> part) {
      table_->read(static_cast<std::int64_t>(run), row.tokens, row.labels);
      std::copy_n((row.*which).begin() + offset, part.size(), part.begin());
    });
  }

  std::shared_ptr<const RowTable> table_;
  Joints joints_{false};
};

}  // namespace

std::unique_ptr<Dataset> dataset_of_rows(std::shared_ptr<const RowTable> table, std::int64_t sequence_length,
                                         const RowLimits& limits) {
  return std::make_unique<RowDataset>(std::move(table), sequence_length, limits);
}

std::unique_ptr<TokenStream> stream_of_rows(std::shared_ptr<const RowTable> table) {
  return std::make_unique<RowStream>(std::move(table));
}

}  // namespace pipetrain
