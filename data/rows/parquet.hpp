// Rows of Parquet files, by Apache Arrow where the build has it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "files/mapped_file.hpp"

namespace pipetrain {

// By the name's end.
bool is_parquet(const std::filesystem::path& path);

inline constexpr std::int64_t all_parquet_rows = std::numeric_limits<std::int64_t>::max();

// The first rows of a file as JSON lines, row n in line n, in a file without a name in TMPDIR (/tmp) that goes with the object.
// Of the columns, those of the text keys and prompt, response, messages, input_ids, labels, label and masks, as far as they are
// there: texts as strings, integers as numbers, lists as arrays, messages as objects. Of columns that would say more of the
// text (row_keys.hpp) there is as much as tells that; those that nobody knows are named in the first row, and, where the
// user chose the text keys, also other columns of a wrong type. What is null is left out.
//
// Takes memory for about 4 MiB of rows, or one row, and the pages of the file that these lie in; more than the bytes of the
// file and 40 MiB is refused. Throws Error(input) for what MappedFile throws; a file that is no Parquet file, damaged, cut
// short, or encrypted; one of whose columns are none of these, or not of such a type, or compressed by a method that Arrow does
// not have; a row in which a text is no UTF-8; too little room in TMPDIR; and always, where the build
// has no Arrow.
MappedFile open_parquet(const std::filesystem::path& path, const std::vector<std::string>& text_keys,
                        std::int64_t rows = all_parquet_rows, bool text_keys_chosen = false);

// "ok: Arrow 26.0.0", or that the build has none, and what to do.
std::string describe_parquet();

}  // namespace pipetrain
