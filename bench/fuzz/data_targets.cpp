#include <algorithm>
#include <optional>
#include <stdexcept>

#include "bench/fuzz/target.hpp"
#include "core/error.hpp"
#include "data/open_dataset.hpp"
#include "data/rows/jsonl_row.hpp"
#include "files/unpacked_file.hpp"

namespace pipetrain::fuzz {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;

const std::vector<std::string> row_words = {"{\"text\": \"abc\"}\n",
                                            "{\"input_ids\": [1,2,3]}\n",
                                            "\"label\"",
                                            "\"labels\": [-100, 2]",
                                            "\"prompt\"",
                                            "\"response\"",
                                            "\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]",
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
  options.chat_template = "llama2";
  options.threads = 1;
  const auto dataset = open_dataset(options);
  Sample sample;
  for (const std::int64_t index : {std::int64_t{0}, dataset->size() - 1}) {
    dataset->read(index, sample);
    const auto is_id = [](std::int32_t token) { return token >= 0 && token < 1000; };
    const auto is_label = [&](std::int32_t label) { return label == not_counted || is_id(label); };
    if (!std::all_of(sample.ids.begin(), sample.ids.end(), is_id) ||
        !std::all_of(sample.labels.begin(), sample.labels.end(), is_label))
      throw std::logic_error("a token outside of the vocabulary was read");
    const SampleSize size{std::ssize(sample.ids), std::count_if(sample.labels.begin(), sample.labels.end(), is_id)};
    if (size != dataset->measure(index)) throw std::logic_error("a sample has another size than was measured");
  }
}

// The first byte chooses the compression of the others.
void unpack(const fs::path& folder, std::string_view input) {
  const fs::path file = folder / (input.starts_with('z') ? "rows.txt.zst" : "rows.txt.gz");
  put_file(file, input.substr(std::min<std::size_t>(input.size(), 1)));
  const MappedFile bytes = open_unpacked(file);
  if (bytes.bytes().empty()) throw std::logic_error("an empty file was opened");
}

struct ParsedRow {
  RowForm form = RowForm::text;
  std::vector<std::string> texts;
  std::optional<std::int64_t> label, wrong;
  std::int64_t ids = 0, labels = 0;
  std::vector<std::int32_t> tokens, answers;
  bool operator==(const ParsedRow&) const = default;
};

// Returns nothing if the row is refused.
std::optional<ParsedRow> parsed(std::string_view row, std::size_t longest_parsed, std::string& why) {
  ParsedRow result;
  result.tokens.assign(16, -1);
  result.answers.assign(16, -1);
  try {
    const Row fields = parse_row(row, {.ids = result.tokens, .labels = result.answers, .vocabulary = 1000}, longest_parsed);
    result.form = fields.form;
    result.texts.assign(fields.texts.begin(), fields.texts.end());
    for (const auto& [role, text] : fields.messages) {
      result.texts.emplace_back(role);
      result.texts.emplace_back(text);
    }
    result.label = fields.label;
    result.ids = fields.ids;
    result.labels = fields.labels;
    if (fields.wrong) result.wrong = fields.wrong->place;
  } catch (const RowFault& fault) {
    why = fault.why;
    return std::nullopt;
  }
  return result;
}

// Both ways to read a row must give the same result; they may differ only in which numbers are too large for JSON.
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
  Target rows{"jsonl", {}, row_words, [file](std::string_view input) { read_rows(file, input); }, nullptr};
  rows.seeds = {
      "{\"text\": \"It was the best of times\"}\n{\"text\": \"\\u00e9\\n it was\", \"meta\": {\"a\": [1, 2.5, null]}}\n",
      "{\"input_ids\": [1, 2, 3, 999]}\n{\"id\": 7, \"input_ids\": [4, 5, 6, 0]}\n\n{\"input_ids\":[7,8,9,10]}",
      "{\"input_ids\": [1, 2, 3], \"labels\": [-100, 2, 7]}\n{\"input_ids\": [4, 5], \"labels\": [4, 5]}\n",
      "{\"prompt\": \"2+2=\", \"response\": \"4\"}\n{\"prompt\": \"\", \"response\": \"\\u00e9\"}\n",
      "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}\n"};
  Target packed{"packed", {}, {}, [folder](std::string_view input) { unpack(folder, input); }, nullptr};
  packed.seeds = {
      "g\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\xab\x56\x2a\x49\xad\x28\x51\xb2\x52\x50\x4a\x4c\x4a\x56\xaa\xe5\xaa\x86\xf3"
      "\x53\x52\xd3\xd2\x33\x80\x22\x00\x02\x09\x5c\x25\x22\x00\x00\x00"s,
      "z\x28\xb5\x2f\xfd\x20\x22\xf5\x00\x00\xc0\x7b\x22\x74\x65\x78\x74\x22\x3a\x20\x22\x61\x62\x63\x22\x7d\x0a\x64"
      "\x65\x66\x67\x68\x22\x7d\x0a\x01\x00\x66\x9b\x4b"s};
  Target row{"row", {}, row_words, compare_ways, nullptr};
  row.seeds = {R"({"text": "It was the \"best\" of \u00e9 times", "a": {"text": 1}})",
               R"({"id": null, "input_ids": [1, 2, 3, 999, 4]})", R"({"labels": [-100, 7], "input_ids": [1, 2]})",
               R"({"prompt": "a", "response": "b", "x": {}})",
               R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})"};
  return {rows, row, packed};
}

}  // namespace pipetrain::fuzz
