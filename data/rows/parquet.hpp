// Reads rows of Parquet files by Apache Arrow, if the build has it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>

#include "data/rows/text_keys.hpp"
#include "files/mapped_file.hpp"

namespace pipetrain {

// Decides by the end of the name.
bool is_parquet(const std::filesystem::path& path);

inline constexpr std::int64_t all_parquet_rows = std::numeric_limits<std::int64_t>::max();

// Returns the first rows of a file as JSON lines, row n in line n, in an unnamed file in TMPDIR (/tmp) that is deleted
// with the object. It has the columns of the text keys and prompt, response, messages, input_ids, labels, label and
// masks, if they exist: texts as strings, integers as numbers, lists as arrays, messages as objects. Columns that would
// add to the text (row_keys.hpp) are written only as far as a reader needs to detect them; unknown columns are named in
// the first row, and so are other columns of a wrong type if the user chose the text keys. Nulls are left out.
//
// Takes memory for about 4 MiB of rows, or one row, and for the pages of the file that contain them; a file that claims
// more than its own size and 40 MiB is refused. Throws Error(input) for the errors of MappedFile; for a file that is
// not Parquet, damaged, cut short, or encrypted; for one without any of these columns, with one of a wrong type, or
// compressed by a method that Arrow lacks; for a row with a text that is not UTF-8; for too little room in TMPDIR; and
// always if the build has no Arrow.
MappedFile open_parquet(const std::filesystem::path& path, const TextKeys& text_keys = {},
                        std::int64_t rows = all_parquet_rows);

// Returns "ok: Arrow 26.0.0", or that the build has no Arrow and what to do.
std::string describe_parquet();

}  // namespace pipetrain
