// Rows that are samples of their own, of different length. Internal to data/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/rows/row_limits.hpp"
#include "data/samples/documents.hpp"

namespace pipetrain {

class UnreadKeys;

// Immutable and thread-safe. Every row has something to learn from.
class RowTable {
 public:
  virtual ~RowTable() = default;

  virtual std::int64_t rows() const = 0;
  virtual std::int64_t tokens(std::int64_t row) const = 0;
  // Labels of the row that are part of the loss: of a language model never the first token's.
  virtual std::int64_t counted(std::int64_t row) const = 0;
  // All tokens, and as many labels, each the token itself or not_counted; of classes all but the last not_counted.
  virtual void read(std::int64_t row, std::vector<std::int32_t>& tokens, std::vector<std::int32_t>& labels) const = 0;
  virtual std::uint64_t content() const = 0;

  std::int64_t most_tokens() const;
};

// Rows {"input_ids"}, with "labels" or "label": read where they lie, without the padding that an "attention_mask" names. Every
// row is checked here; `unread`, which may be null, gets the keys that nobody knows. Throws Error(input) that names file and
// line.
std::shared_ptr<const RowTable> open_id_rows(const std::filesystem::path& path, const RowLimits& limits, UnreadKeys* unread);

// Each row a sample of its own.
std::unique_ptr<Dataset> dataset_of_rows(std::shared_ptr<const RowTable> table, std::int64_t sequence_length,
                                         const RowLimits& limits);
// Rows one behind the other as documents.
std::unique_ptr<TokenStream> stream_of_rows(std::shared_ptr<const RowTable> table);

}  // namespace pipetrain
