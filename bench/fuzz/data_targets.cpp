#include <algorithm>
#include <optional>
#include <stdexcept>

#include "bench/fuzz/target.hpp"
#include "core/error.hpp"
#include "data/dataset.hpp"
#include "data/jsonl_row.hpp"

namespace pipetrain::fuzz {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> words = {"{\"text\": \"abc\"}\n",
                                        "{\"input_ids\": [1,2,3]}\n",
                                        "\"label\"",
                                        "\"text\"",
                                        "\"input_ids\"",
                                        "\"\\u00e9\"",
                                        "\"\xc3\xa9\"",
                                        "[1,2,3]"};

void read_rows(const fs::path& file, std::string_view input) {
  put_file(file, input);
  DatasetOptions options;
  options.inputs = {{file, std::nullopt}};
  options.default_sequence_length = 4;
  options.vocabulary = 1000;
  options.max_positions = 512;
  const auto dataset = open_dataset(options);
  for (const std::int64_t sample : {std::int64_t{0}, dataset->size() - 1}) {
    const std::vector<std::int32_t> tokens = dataset->read(sample);
    if (!std::all_of(tokens.begin(), tokens.end(), [](std::int32_t token) { return token >= 0 && token < 1000; }))
      throw std::logic_error("a token outside of the vocabulary was read");
  }
}

struct ParsedRow {
  std::optional<std::string> text;
  std::optional<std::int64_t> ids, wrong_id;
  std::vector<std::int32_t> tokens;
  bool operator==(const ParsedRow&) const = default;
};

// Nothing where the row is refused.
std::optional<ParsedRow> parsed(std::string_view row, std::size_t longest_parsed, std::string& why) {
  ParsedRow result;
  result.tokens.assign(16, -1);
  try {
    const Row fields = parse_row(row, result.tokens, 1000, longest_parsed);
    if (fields.text) result.text = *fields.text;
    result.ids = fields.ids;
    if (fields.wrong_id) result.wrong_id = fields.wrong_id->first;
  } catch (const RowFault& fault) {
    why = fault.why;
    return std::nullopt;
  }
  return result;
}

// Both ways to read a row must find the same in it; they may differ in what numbers are too large to be JSON's.
void compare_ways(std::string_view row) {
  std::string why_whole, why_stream;
  const auto whole = parsed(row, row.size(), why_whole), stream = parsed(row, 0, why_stream);
  if (whole && stream && *whole != *stream)
    throw std::logic_error("a row read as a stream differs from the same row read whole");
  if (!whole) throw Error(ErrorKind::input, why_whole);
  if (!stream) throw Error(ErrorKind::input, why_stream);
}

}  // namespace

std::vector<Target> data_targets(const fs::path& folder) {
  const fs::path file = folder / "rows.jsonl";
  Target rows{"jsonl", {}, words, [file](std::string_view input) { read_rows(file, input); }, nullptr};
  rows.seeds = {
      "{\"text\": \"It was the best of times\"}\n{\"text\": \"\\u00e9\\n it was\", \"meta\": {\"a\": [1, 2.5, null]}}\n",
      "{\"input_ids\": [1, 2, 3, 999]}\n{\"id\": 7, \"input_ids\": [4, 5, 6, 0]}\n\n{\"input_ids\":[7,8,9,10]}"};
  Target row{"row", {}, words, compare_ways, nullptr};
  row.seeds = {R"({"text": "It was the \"best\" of \u00e9 times", "a": {"text": 1}})",
               R"({"id": null, "input_ids": [1, 2, 3, 999, 4]})"};
  return {rows, row};
}

}  // namespace pipetrain::fuzz
