// The lines of a file, each one JSON object; for a Parquet file, its rows as such lines. Internal to data/.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "data/rows/jsonl_row.hpp"
#include "data/rows/parquet.hpp"
#include "files/mapped_file.hpp"

namespace pipetrain {

// A row is identified by the offset of its first byte; lines of white space are not rows. Thread-safe. A wrong row
// gives an Error(input) that names file and line.
class JsonlFile {
 public:
  // Reads of a Parquet file only the columns that a row can have, including those of the text keys, and only the first rows.
  explicit JsonlFile(const std::filesystem::path& path, const RowWanted& wanted = {},
                     std::int64_t parquet_rows = all_parquet_rows);

  std::int64_t size() const { return static_cast<std::int64_t>(file_.bytes().size()); }
  const std::filesystem::path& path() const { return file_.path(); }

  // Returns the offset of the first row at or after `offset`, or -1.
  std::int64_t next_row(std::int64_t offset) const;
  std::int64_t end_of_row(std::int64_t row) const;
  // Calls take(row) for the offset of each row from `begin` to before `end`.
  void each_row(std::int64_t begin, std::int64_t end, const std::function<void(std::int64_t row)>& take) const;

  // Returns the row as the file has it.
  std::string_view text(std::int64_t row) const {
    return file_.bytes().substr(static_cast<std::size_t>(row), static_cast<std::size_t>(end_of_row(row) - row));
  }
  // Valid until this thread parses its next row.
  Row parse(std::int64_t row, const RowWanted& wanted) const;
  // Does the same for files whose rows must all have this form.
  Row parse(std::int64_t row, const RowWanted& wanted, RowForm form) const;

  [[noreturn]] void fail(std::int64_t row, const std::string& why) const;
  std::string where(std::int64_t row) const { return file_.where(row); }
  void expect_random_reads() const { file_.expect_random_reads(); }

 private:
  MappedFile file_;
};

}  // namespace pipetrain
