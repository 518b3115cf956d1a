#include "data/tokenized_rows.hpp"

#include <algorithm>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "data/tokenize_files.hpp"

namespace pipetrain {
namespace {

class TokenizedRows : public RowTable {
 public:
  void add(const TokenizedDocuments& documents) {
    for (const std::size_t end : documents.ends) ends_.push_back(ids_.size() + end);
    ids_.insert(ids_.end(), documents.ids.begin(), documents.ids.end());
    counted_.insert(counted_.end(), documents.counted.begin(), documents.counted.end());
    classes_.insert(classes_.end(), documents.classes.begin(), documents.classes.end());
    desirable_.insert(desirable_.end(), documents.desirable.begin(), documents.desirable.end());
  }

  std::int64_t rows() const override { return std::ssize(ends_); }
  std::int64_t tokens(std::int64_t row) const override { return static_cast<std::int64_t>(end(row) - begin(row)); }
  std::int64_t counted(std::int64_t row) const override {
    if (!classes_.empty()) return 1;
    return std::count(counted_.begin() + at(begin(row) + 1), counted_.begin() + at(end(row)), true);
  }
  Completed completed(std::int64_t row) const override {
    const auto first = counted_.begin() + at(begin(row)), found = std::find(first, counted_.begin() + at(end(row)), true);
    return {found - first, desirable_.empty() || desirable_[static_cast<std::size_t>(row)]};
  }
  void read(std::int64_t row, std::vector<std::int32_t>& tokens, std::vector<std::int32_t>& labels) const override {
    const std::size_t from = begin(row);
    tokens.assign(ids_.begin() + at(from), ids_.begin() + at(end(row)));
    labels.assign(tokens.size(), not_counted);
    if (!classes_.empty()) {
      labels.back() = classes_[static_cast<std::size_t>(row)];
      return;
    }
    for (std::size_t i = 0; i < tokens.size(); ++i)
      if (counted_[from + i]) labels[i] = tokens[i];
  }
  std::uint64_t content() const override {
    Checksum sum;
    sum.add(ids_.data(), ids_.size() * sizeof ids_[0]);
    sum.add(ends_.data(), ends_.size() * sizeof ends_[0]);
    sum.add(classes_.data(), classes_.size() * sizeof(std::int32_t));
    for (std::int64_t row = 0; row < rows(); ++row) sum.add(static_cast<std::uint64_t>(counted(row)));
    for (const bool one : desirable_) sum.add(std::uint64_t{one});
    return sum.value();
  }

 private:
  static std::ptrdiff_t at(std::size_t place) { return static_cast<std::ptrdiff_t>(place); }
  std::size_t end(std::int64_t row) const { return ends_[static_cast<std::size_t>(row)]; }
  std::size_t begin(std::int64_t row) const { return row == 0 ? 0 : end(row - 1); }

  std::vector<std::int32_t> ids_;
  std::vector<bool> counted_;
  std::vector<std::uint64_t> ends_;
  std::vector<std::int32_t> classes_;  // empty if the labels are tokens
  std::vector<bool> desirable_;        // empty if the rows are not completions with labels
};

}  // namespace

std::shared_ptr<const RowTable> tokenize_rows(const std::vector<std::filesystem::path>& files, const TextReading& reading,
                                              const RowLimits& limits) {
  const auto table = std::make_shared<TokenizedRows>();
  TextReading rows = reading;
  rows.limits = limits;
  tokenize_files(files, rows, [&](const TokenizedDocuments& documents) { table->add(documents); });
  if (table->rows() == 0)
    throw Error(ErrorKind::input, files.front().string() + ": the text of every row is empty; give rows with text");
  return table;
}

}  // namespace pipetrain
