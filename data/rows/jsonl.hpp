// Documents of .jsonl and .parquet files whose bytes are tokens. Internal to data/.
#pragma once

#include <memory>
#include <string>

#include "data/rows/jsonl_row.hpp"
#include "data/samples/documents.hpp"

namespace pipetrain {

// The properties of a file that its first row shows.
struct JsonlKind {
  RowForm form = RowForm::text;
  bool has_label = false;
  std::string first_row;  // "rows.jsonl:1"
};
// Throws Error(input) as the readers of rows do.
JsonlKind peek_jsonl(const std::filesystem::path& path, const RowWanted& wanted);

// Rows {"text"}: each is one document of UTF-8 bytes, with a newline between several texts of a row; rows with an empty
// text are skipped. Every row is checked here.
std::unique_ptr<TokenStream> open_jsonl_text(const std::filesystem::path& path, const RowWanted& wanted,
                                             std::int64_t vocabulary);

}  // namespace pipetrain
