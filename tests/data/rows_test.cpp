// Rows that are samples of their own: which tokens a model learns, and how the rows become samples.

#include "catch.hpp"
#include "core/error.hpp"
#include "data/open_dataset.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;

namespace {

using Tokens = std::vector<std::int32_t>;

constexpr std::int32_t end = 256;  // the end of a text of bytes
constexpr std::int32_t no = not_counted;

DatasetOptions rows_options(const std::filesystem::path& file) {
  DatasetOptions options;
  options.inputs = {{file, std::nullopt}};
  options.vocabulary = 300;
  options.threads = 2;
  return options;
}

Sample sample_of(const Dataset& data, std::int64_t index) {
  Sample sample;
  data.read(index, sample);
  return sample;
}

void check_sizes(const Dataset& data) {
  for (std::int64_t index = 0; index < data.size(); ++index) {
    const Sample sample = sample_of(data, index);
    CHECK(data.measure(index).ids == std::ssize(sample.ids));
    CHECK(data.measure(index).counted ==
          std::count_if(sample.labels.begin(), sample.labels.end(), [](std::int32_t label) { return label >= 0; }));
    CHECK(sample.labels.size() == sample.ids.size());
    CHECK(data.documents(index) == sample.documents);
  }
}

Tokens row_tokens(std::string_view text) {
  Tokens tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

}  // namespace

TEST_CASE("only the response counts in a row of a prompt and a response") {
  const TempFolder folder;
  const auto data = open_dataset(rows_options(folder.write("a.jsonl", R"({"prompt": "2+2=", "response": "4"})"
                                                                      "\n"
                                                                      R"({"response": "ja", "prompt": "", "id": 7})")));
  REQUIRE(data->size() == 2);
  CHECK(data->sequence_length() == 5);
  CHECK(sample_of(*data, 0).ids == row_tokens("2+2=4"));
  CHECK(sample_of(*data, 0).labels == Tokens{no, no, no, '4', end});
  CHECK(sample_of(*data, 1).labels == Tokens{'a', end});
  check_sizes(*data);
}

TEST_CASE("only the answers of a chat count, with the tokens that end them") {
  const TempFolder folder;
  DatasetOptions options = rows_options(folder.write(
      "a.jsonl",
      R"({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "U"},)"
      R"({"role": "assistant", "content": "A"}, {"role": "user", "content": "V"}, {"role": "assistant", "content": "B"}]})"));
  options.chat_template = "chatml";
  const auto data = open_dataset(options);
  const std::string text =
      "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n"
      "<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\nB<|im_end|>";
  const Sample sample = sample_of(*data, 0);
  CHECK(sample.ids == row_tokens(text.substr(0, text.size() - 1)));
  std::string learned;
  for (const std::int32_t label : sample.labels) learned += label == no ? '.' : static_cast<char>(label);
  const std::string all = std::string(text.find("A<"), '.') + "A<|im_end|>" +
                          std::string(text.find("B<") - text.find("A<") - 11, '.') + "B<|im_end|>";
  CHECK(learned == all.substr(1));
  check_sizes(*data);
}

TEST_CASE("labels of ids say which of them count, as in Hugging Face") {
  const TempFolder folder;
  const auto data =
      open_dataset(rows_options(folder.write("a.jsonl", R"({"input_ids": [1, 2, 3, 4], "labels": [-100, -100, 3, 9]})"
                                                        "\n"
                                                        R"({"labels": [5, 6], "input_ids": [5, 6]})")));
  REQUIRE(data->size() == 2);
  CHECK(data->sequence_length() == 3);
  CHECK(sample_of(*data, 0).ids == Tokens{1, 2, 3});
  CHECK(sample_of(*data, 0).labels == Tokens{no, 3, 9});
  CHECK(sample_of(*data, 1).ids == Tokens{5});
  CHECK(sample_of(*data, 1).labels == Tokens{6});
  check_sizes(*data);
}

TEST_CASE("a class is said at the last token of its row") {
  const TempFolder folder;
  DatasetOptions options = rows_options(folder.write("a.jsonl", R"({"input_ids": [7, 8, 9], "label": 2})"
                                                                "\n"
                                                                R"({"input_ids": [7], "label": 0})"));
  options.classes = 3;
  const auto ids = open_dataset(options);
  CHECK(ids->sequence_length() == 3);
  CHECK(sample_of(*ids, 0).ids == Tokens{7, 8, 9});
  CHECK(sample_of(*ids, 0).labels == Tokens{no, no, 2});
  CHECK(sample_of(*ids, 1).labels == Tokens{0});
  check_sizes(*ids);

  options.inputs = {{folder.write("b.jsonl", R"({"one": "ab", "text": "x", "two": "c", "label": 1})"), std::nullopt}};
  options.text_keys.names = {"one", "two"};
  const auto texts = open_dataset(options);
  CHECK(sample_of(*texts, 0).ids == row_tokens("ab\nc"));
  CHECK(sample_of(*texts, 0).labels == Tokens{no, no, no, 1});
  check_sizes(*texts);
}

TEST_CASE("texts of several keys are one document") {
  const TempFolder folder;
  DatasetOptions options =
      rows_options(folder.write("a.jsonl", "{\"title\":\"ab\",\"body\":\"cd\"}\n{\"body\":\"e\",\"title\":\"f\"}\n"));
  options.text_keys.names = {"title", "body"};
  options.sequence_length = 8;
  CHECK(open_dataset(options)->read(0) == Tokens{'a', 'b', '\n', 'c', 'd', end, 'f', '\n', 'e'});
}

TEST_CASE("each text row is a sample where nothing is packed") {
  const TempFolder folder;
  DatasetOptions options = rows_options(folder.write("a.jsonl", "{\"text\":\"abc\"}\n{\"text\":\"\"}\n{\"text\":\"de\"}\n"));
  options.pack = Pack::none;
  const auto data = open_dataset(options);
  REQUIRE(data->size() == 2);
  CHECK(data->read(0) == Tokens{'a', 'b', 'c', end});
  CHECK(data->read(1) == Tokens{'d', 'e', end});
  check_sizes(*data);
}

TEST_CASE("isolated documents are the packed samples with their bounds, and a document's first token does not count") {
  const TempFolder folder;
  DatasetOptions options =
      rows_options(folder.write("a.jsonl", "{\"text\":\"abc\"}\n{\"text\":\"de\"}\n{\"text\":\"fghijkl\"}\n"));
  options.sequence_length = 5;
  options.pack = Pack::documents;
  const auto packed = open_dataset(options);
  options.pack = Pack::isolated;
  const auto isolated = open_dataset(options);
  CHECK_FALSE(packed->isolates_documents());
  CHECK(isolated->isolates_documents());
  REQUIRE(isolated->size() == packed->size());
  CHECK(isolated->content() != packed->content());
  for (std::int64_t i = 0; i < packed->size(); ++i) CHECK(sample_of(*isolated, i).ids == sample_of(*packed, i).ids);
  CHECK(sample_of(*isolated, 0).documents == Tokens{0, 4});  // abc# d | e#fgh | ijkl
  CHECK(sample_of(*isolated, 0).labels == Tokens{'b', 'c', end, no, 'e'});
  CHECK(sample_of(*isolated, 1).documents == Tokens{0, 2});
  CHECK(sample_of(*isolated, 1).labels == Tokens{end, no, 'g', 'h', 'i'});
  check_sizes(*isolated);
}

TEST_CASE("packed rows keep what counts in them") {
  const TempFolder folder;
  DatasetOptions options = rows_options(folder.write("a.jsonl",
                                                     "{\"prompt\":\"ab\",\"response\":\"c\"}\n{\"prompt\":\"d\",\"response\":"
                                                     "\"ef\"}\n{\"prompt\":\"\",\"response\":\"g\"}\n"));
  options.sequence_length = 4;
  options.pack = Pack::documents;
  const auto packed = open_dataset(options);  // abc# d ef# g#
  REQUIRE(packed->size() == 2);
  CHECK(sample_of(*packed, 0).ids == Tokens{'a', 'b', 'c', end});
  CHECK(sample_of(*packed, 0).labels == Tokens{no, 'c', end, no});
  CHECK(sample_of(*packed, 1).labels == Tokens{'e', 'f', end, 'g'});
  check_sizes(*packed);
  options.pack = Pack::isolated;
  const auto isolated = open_dataset(options);
  CHECK(sample_of(*isolated, 1).documents == Tokens{0});
  CHECK(sample_of(*isolated, 1).labels == Tokens{'e', 'f', end, no});
  check_sizes(*isolated);
}

TEST_CASE("files of one input may hold rows and documents") {
  const TempFolder folder;
  folder.write("in/a.txt", std::string(60, 'x'));
  folder.write("in/b.jsonl", "{\"prompt\":\"a\",\"response\":\"b\"}\n");
  folder.write("in/c.jsonl",
               "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"}]}\n");
  folder.write("in/d.jsonl", "{\"input_ids\":[1,2,3,4,5]}\n{\"input_ids\":[1,2]}\n");
  DatasetOptions options = rows_options(folder.path() / "in");
  options.chat_template = "llama2";
  const auto data = open_dataset(options);
  const std::int64_t longest = data->sequence_length();
  CHECK(longest == std::ssize(std::string_view("[INST] a [/INST] b </s>")) - 1);
  check_sizes(*data);
}
