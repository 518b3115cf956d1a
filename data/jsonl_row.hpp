// One row of a .jsonl file. Internal to data/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace pipetrain {

// `text` is valid until this thread parses its next row.
struct Row {
  std::optional<std::string_view> text;
  std::optional<std::int64_t> ids;  // how many
  // The first that is no token id: its place, and what stands there with what is wrong with it.
  std::optional<std::pair<std::int64_t, std::string>> wrong_id;
};

// What is wrong with a row; the caller adds file and line.
struct RowFault {
  std::string why;
};

// A row up to this size is parsed as a whole, which takes up to 14 times its size in memory; a longer one is read as a stream,
// of which only the text is kept. Both give the same result.
inline constexpr std::size_t longest_parsed_row = std::size_t{1} << 20;

// Most keys of a row, without those of nested objects. All are kept until the row's end, to find duplicates; more are
// refused.
inline constexpr std::size_t most_row_keys = 10'000, most_row_key_bytes = std::size_t{1} << 20;

// A row {"text": "..."} or {"input_ids": [...]}; `ids` takes the first ids, as many as it has places for. Ids are wrong unless
// in [0, vocabulary). Throws RowFault on bad JSON, keys that come twice, too many keys, other forms, and a string of more than
// 16 MiB. Takes up to 16 MB of memory, and for rows of more than 1 MiB with a text, four times its size. Thread-safe.
Row parse_row(std::string_view row, std::span<std::int32_t> ids, std::int64_t vocabulary,
              std::size_t longest_parsed = longest_parsed_row);

}  // namespace pipetrain
