// Rows that are samples of their own, with different lengths. Internal to data/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "data/rows/row_limits.hpp"
#include "data/samples/documents.hpp"

namespace pipetrain {

class UnreadKeys;

// Immutable and thread-safe. Every row has at least one label that counts.
class RowTable {
 public:
  virtual ~RowTable() = default;

  virtual std::int64_t rows() const = 0;
  virtual std::int64_t tokens(std::int64_t row) const = 0;
  // Returns the number of the row's labels that count in the loss; the first token of a language model's row never does.
  virtual std::int64_t counted(std::int64_t row) const = 0;
  // For rows of completions: the tokens of the prompt, and the row's label.
  struct Completed {
    std::int64_t prompt = 0;
    bool desirable = true;
  };
  virtual Completed completed(std::int64_t) const { return {}; }
  // Reads all tokens and a label for each: the token itself or not_counted. With classes, all labels but the last are
  // not_counted.
  virtual void read(std::int64_t row, std::vector<std::int32_t>& tokens, std::vector<std::int32_t>& labels) const = 0;
  virtual std::uint64_t content() const = 0;

  std::int64_t most_tokens() const;
};

// Rows {"input_ids"}, with "labels" or "label", are read in place, without the padding that an "attention_mask" marks. Every
// row is checked here; `unread`, which may be null, collects unknown keys. Throws Error(input) that names file and line.
std::shared_ptr<const RowTable> open_id_rows(const std::filesystem::path& path, const RowLimits& limits, UnreadKeys* unread);

// Returns a dataset in which each row is a sample. With preferences, the rows are completions.
std::unique_ptr<Dataset> dataset_of_rows(std::shared_ptr<const RowTable> table, std::int64_t sequence_length,
                                         const RowLimits& limits);
// Returns the rows as documents of one stream.
std::unique_ptr<TokenStream> stream_of_rows(std::shared_ptr<const RowTable> table);

}  // namespace pipetrain
