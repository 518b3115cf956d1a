// Texts of files as rows that are samples of their own. Internal to data/.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "data/rows/row_limits.hpp"
#include "data/rows/row_table.hpp"
#include "data/rows/text_reading.hpp"

namespace pipetrain {

// Files .txt, .jsonl and .parquet tokenized into memory: each row, or text file, is a row of the table. Rows with an empty text
// are passed over where the labels are tokens. Throws Error(input) that names file and line.
std::shared_ptr<const RowTable> tokenize_rows(const std::vector<std::filesystem::path>& files, const TextReading& reading,
                                              const RowLimits& limits);

}  // namespace pipetrain
