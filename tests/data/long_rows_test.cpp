// Rows that are too long to be parsed as a whole.

#include "catch.hpp"
#include "core/error.hpp"
#include "data/open_dataset.hpp"
#include "data/rows/jsonl_row.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;

namespace {

// Returns {"input_ids": [1,1, ... ,7]}.
std::string row_of(std::int64_t ids) {
  std::string row = "{\"input_ids\": [";
  for (std::int64_t i = 1; i < ids; ++i) row += "1,";
  return row + "7]}";
}

std::vector<std::string> texts_of(const Row& row) {
  std::vector<std::string> texts(row.texts.begin(), row.texts.end());
  for (const auto& [role, text] : row.messages) texts.push_back(std::string(role) + ": " + std::string(text));
  return texts;
}

// Returns the fault of a row, or the reason why a built-in template cannot render it.
std::string fault_of(const std::string& row) {
  try {
    return parse_row(row, {.vocabulary = 256}).unrendered;
  } catch (const RowFault& fault) {
    return fault.why;
  }
}

}  // namespace

TEST_CASE("a row of more ids than 24 bits count is read, and counted in errors") {
  constexpr std::int64_t length = std::int64_t{1} << 24;
  const TempFolder folder;
  DatasetOptions options;
  options.inputs = {{folder.write("rows.jsonl", row_of(length + 1) + "\n"), std::nullopt}};
  options.max_positions = length;
  const auto dataset = open_dataset(options);
  CHECK(dataset->sequence_length() == length);
  const std::vector<std::int32_t> tokens = dataset->read(0);
  CHECK(std::count(tokens.begin(), tokens.end(), 1) == length);
  CHECK(tokens.back() == 7);
  options.sequence_length = 4;
  CHECK_THROWS_WITH(open_dataset(options), Contains("rows.jsonl:1: this row has 16777217 input_ids; with sequence length 4"));
}

TEST_CASE("a row read as a stream is what it is when read whole") {
  for (const char* text : {R"({"text": "a\u00e9\nb", "more": {"text": [1]}})", R"({"input_ids": [1, 2, 255], "id": "x"})",
                           R"({"input_ids": [1, 256, 1.5]})", R"({"input_ids": [1, 18446744073709551615]})",
                           R"({"input_ids": [[1], 2]})", R"({"input_ids": ["1", null]})", R"({"input_ids": []})",
                           R"({"text": "a", "label": 3, "x": [[{}]]})", R"({"prompt": "a", "more": {}, "response": "\n"})",
                           R"({"input_ids": [1, 2], "labels": [-100, 2]})", R"({"input_ids": [1, 2], "labels": [-1, 2]})",
                           R"({"messages": [{"role": "user", "content": "a"}, {"content": "b\u00e9", "role": "assistant"}]})",
                           R"({"messages": []})"}) {
    std::vector<std::int32_t> whole_ids(3, -1), whole_labels(3, -1), stream_ids(3, -1), stream_labels(3, -1);
    const Row whole = parse_row(text, {.ids = whole_ids, .labels = whole_labels, .vocabulary = 256});
    const std::vector<std::string> whole_texts = texts_of(whole);
    const Row stream = parse_row(text, {.ids = stream_ids, .labels = stream_labels, .vocabulary = 256}, 0);
    CHECK(stream.form == whole.form);
    CHECK(texts_of(stream) == whole_texts);
    CHECK(stream.label == whole.label);
    CHECK(stream.ids == whole.ids);
    CHECK(stream.labels == whole.labels);
    CHECK(stream.wrong.has_value() == whole.wrong.has_value());
    if (whole.wrong) CHECK(stream.wrong->place == whole.wrong->place);
    CHECK(stream_ids == whole_ids);
    CHECK(stream_labels == whole_labels);
  }
}

TEST_CASE("a row may have many keys, but not so many that they fill the memory") {
  const auto row_with = [](std::size_t keys) {
    std::string row = R"({"text": "a")";
    for (std::size_t i = 1; i < keys; ++i) row += ",\"k" + std::to_string(i) + "\":{\"inner\":[1]}";
    return row + "}";
  };
  for (const std::size_t longest_parsed : {longest_parsed_row, std::size_t{0}}) {
    CHECK(texts_of(parse_row(row_with(most_row_keys), {}, longest_parsed)) == std::vector<std::string>{"a"});
    CHECK_THROWS_AS(parse_row(row_with(most_row_keys + 1), {}, longest_parsed), RowFault);
  }
  CHECK_THAT(fault_of(row_with(200'000)), Contains("this row has more than 10000 keys"));
}

TEST_CASE("long rows that are wrong end in the same words as short ones") {
  const std::string filler = ", \"more\": \"" + std::string(longest_parsed_row, 'x') + "\"}";
  for (const std::string& more : {std::string("}"), filler}) {
    CHECK_THAT(fault_of("{\"text\": 3" + more), Contains("\"text\" is not a string"));
    CHECK_THAT(fault_of("{\"text\": []" + more), Contains("\"text\" is not a string"));
    CHECK_THAT(fault_of("{\"input_ids\": 3" + more), Contains("\"input_ids\" is not an array"));
    CHECK_THAT(fault_of("{\"input_ids\": {}" + more), Contains("\"input_ids\" is not an array"));
    CHECK_THAT(fault_of("{\"ids\": []" + more), Contains("this row has neither"));
    CHECK_THAT(fault_of("{\"text\": \"\", \"input_ids\": []" + more), Contains("this row has both"));
    CHECK_THAT(fault_of("{\"text\": \"\", \"label\": 1.5" + more), Contains("\"label\" is not an integer"));
    CHECK_THAT(fault_of("{\"text\": \"\", \"labels\": [1]" + more), Contains("this row has \"labels\", but no"));
    CHECK_THAT(fault_of("{\"messages\": [1]" + more), Contains("\"messages\" is not an array of objects"));
    CHECK_THAT(fault_of("{\"messages\": [{\"role\": \"a\"}]" + more), Contains("messages[0] has no \"content\""));
    CHECK_THAT(fault_of("{\"messages\": [{\"role\": [], \"content\": 1}]" + more), Contains("messages[0] has a \"role\" or"));
    CHECK_THAT(fault_of("{\"prompt\": \"\"" + more), Contains("this row has no \"response\""));
    CHECK(fault_of("{\"text\": \"a\", \"text\": \"b\"" + more) == "\"text\" appears twice in this row; keep one");
    CHECK(fault_of("{\"a\": 1, \"text\": \"b\", \"a\": 1" + more) == "\"a\" appears twice in this row; keep one");
  }
  CHECK_THAT(fault_of("{\"text\": \"a\", \"" + std::string(longest_parsed_row + 1, 'k') + "\": 1}"),
             Contains("more than 10000 keys"));
  CHECK_THAT(fault_of("[\"" + std::string(longest_parsed_row, 'x') + "\"]"), Contains("this row is not a JSON object"));
  CHECK_THAT(fault_of("{\"text\": \"" + std::string(std::size_t{17} << 20, 'x') + "\"}"),
             Contains("is longer than the 16777216 bytes allowed"));
  CHECK_FALSE(fault_of(std::string("{\"text\": \"a\"}\0", 14)).empty());
}
