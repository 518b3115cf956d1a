// Tokenizes the texts of files into rows that are samples of their own. Internal to data/.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "data/rows/row_limits.hpp"
#include "data/rows/row_table.hpp"
#include "data/rows/text_reading.hpp"

namespace pipetrain {

// Tokenizes .txt, .jsonl and .parquet files into memory: each row, or text file, is a row of the table. Rows with an
// empty text are skipped if the labels are tokens. Throws Error(input) that names file and line.
std::shared_ptr<const RowTable> tokenize_rows(const std::vector<std::filesystem::path>& files, const TextReading& reading,
                                              const RowLimits& limits);

}  // namespace pipetrain
