// Every kind of wrong data ends in one line that names the file and line.
#include "catch.hpp"
#include "core/error.hpp"
#include "data/open_dataset.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using pipetrain::TempFolder;

namespace {

std::string data_error(const DatasetOptions& options) {
  try {
    open_dataset(options);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
    return error.what();
  }
  return "no error";
}

// Returns the error for a file of this name and content, without the folder's name.
std::string error_for_data(const std::string& name, const std::string& content, std::optional<std::int64_t> sequence_length = 2,
                           std::int64_t vocabulary = 256, std::int64_t max_positions = 0) {
  TempFolder folder;
  DatasetOptions options;
  options.inputs = {{folder.write(name, content), std::nullopt}};
  options.sequence_length = sequence_length;
  options.vocabulary = vocabulary;
  options.max_positions = max_positions;
  std::string error = data_error(options);
  const std::string prefix = folder.path().string() + "/";
  if (const auto at = error.find(prefix); at != std::string::npos) error.erase(at, prefix.size());
  return error;
}

std::string error_for_row(const std::string& row) {
  return error_for_data("rows.jsonl", "{\"input_ids\":[1,2,3]}\n\n" + row + "\n{\"input_ids\":[1,2,3]}\n");
}

using Catch::Matchers::StartsWith;

}  // namespace

TEST_CASE("wrong rows name file, line and rule") {
  CHECK_THAT(error_for_row("{\"input_ids\":[1,2,256]}"),
             StartsWith("rows.jsonl:3: input_ids[2] is 256, outside the model's vocabulary of 256"));
  CHECK_THAT(error_for_row("{\"input_ids\":[1,-2,3]}"), StartsWith("rows.jsonl:3: input_ids[1] is -2, outside"));
  CHECK_THAT(error_for_row("{\"input_ids\":[1,2,18446744073709551615]}"),
             StartsWith("rows.jsonl:3: input_ids[2] is 18446744073709551615, outside"));
  CHECK_THAT(error_for_row("{\"input_ids\":[1,2.5,3]}"), StartsWith("rows.jsonl:3: input_ids[1] is 2.5, not an integer"));
  CHECK_THAT(error_for_row("{\"input_ids\":[1,2.0,3]}"), StartsWith("rows.jsonl:3: input_ids[1] is 2.0, not an integer"));
  CHECK_THAT(error_for_row("{\"input_ids\":[\"1\",2,3]}"), StartsWith("rows.jsonl:3: input_ids[0] is \"1\", not an integer"));
  CHECK_THAT(error_for_row("{\"input_ids\":[1,2,null]}"), StartsWith("rows.jsonl:3: input_ids[2] is null, not an integer"));
  CHECK_THAT(error_for_row("{\"input_ids\":[1,2,3,4]}"),
             StartsWith("rows.jsonl:3: this row has 4 input_ids; with sequence length 2 a row takes up to 3"));
  CHECK_THAT(error_for_row("{\"input_ids\":7}"), StartsWith("rows.jsonl:3: \"input_ids\" is not an array"));
  CHECK_THAT(error_for_row("{\"input_ids\":[1,2,3"), StartsWith("rows.jsonl:3: this row is not JSON"));
  CHECK_THAT(error_for_row("{\"input_ids\":[1,2,3]} x"), StartsWith("rows.jsonl:3: this row is not JSON"));
  CHECK_THAT(error_for_row("{\"text\":\"\xff\"}"), StartsWith("rows.jsonl:3: this row is not JSON"));
  CHECK_THAT(error_for_row("{\"input_ids\":[1,2,3],\"input_ids\":[1,2,3]}"),
             StartsWith("rows.jsonl:3: \"input_ids\" appears twice in this row"));
  CHECK_THAT(error_for_row(std::string("{\"input_ids\":[1,2,3]}\0", 22)), StartsWith("rows.jsonl:3: this row is not JSON"));
  CHECK_THAT(error_for_row("hello"), StartsWith("rows.jsonl:3: this row is not JSON"));
  CHECK_THAT(error_for_row("[1,2,3]"), StartsWith("rows.jsonl:3: this row is not a JSON object"));
  CHECK_THAT(error_for_row("{\"ids\":[1,2,3]}"), StartsWith("rows.jsonl:3: this row has neither"));
  CHECK_THAT(error_for_row("{\"text\":\"a\",\"input_ids\":[1,2,3]}"), StartsWith("rows.jsonl:3: this row has both"));
  CHECK_THAT(error_for_row("{\"text\":\"a\"}"), StartsWith("rows.jsonl:3: this row has \"text\", but the rows before"));
  CHECK_THAT(error_for_row("{\"input_ids\":[1,2,3],\"label\":1}"), StartsWith("rows.jsonl:3: rows with \"label\""));
  CHECK_THAT(error_for_data("a.jsonl", "{\"text\":\"abc\"}\n{\"text\":3}\n"),
             StartsWith("a.jsonl:2: \"text\" is not a string"));
  CHECK_THAT(error_for_data("a.jsonl", "{\"text\":\"abc\"}\n{\"input_ids\":[1]}\n"),
             StartsWith("a.jsonl:2: this row has \"input_ids\""));
}

TEST_CASE("bytes that the vocabulary lacks are named") {
  CHECK_THAT(error_for_data("a.txt", "one\ntwo\nthr\xc3\xa9\n", 2, 128),
             StartsWith("a.txt:3: the byte 195 is not below the vocabulary of 128"));
  CHECK_THAT(error_for_data("a.jsonl", "{\"text\":\"abc\"}\n{\"text\":\"\\u00e9\"}\n", 2, 128),
             StartsWith("a.jsonl:2: the byte 195"));
  DatasetOptions options;
  options.sequence_length = 8;
  options.vocabulary = 64;
  CHECK_THAT(data_error(options), StartsWith("the built-in text: the byte"));
}

TEST_CASE("empty, short and unreadable data is named") {
  CHECK_THAT(error_for_data("a.txt", ""), StartsWith("a.txt: is empty"));
  CHECK_THAT(error_for_data("a.txt", std::string("\xFF\xFE"
                                                 "a\0b\0",
                                                 6)),
             StartsWith("a.txt: is text in UTF-16, by its byte-order mark; convert it to UTF-8"));
  CHECK_THAT(error_for_data("a.jsonl", ""), StartsWith("a.jsonl: is empty"));
  CHECK_THAT(error_for_data("a.jsonl", "\n \n"), StartsWith("a.jsonl: has no rows"));
  CHECK_THAT(error_for_data("a.jsonl", "{\"text\":\"\"}\n"), StartsWith("a.jsonl: the text of every row is empty"));
  CHECK_THAT(error_for_data("a.txt", "ab"),
             StartsWith("a.txt: its 2 tokens are too few for one sample of sequence length 2, which takes 3"));
  CHECK_THAT(error_for_data("a.jsonl", "{\"input_ids\":[1]}\n", std::nullopt),
             StartsWith("a.jsonl:1: a sample needs at least 2 tokens"));
  CHECK_THAT(error_for_data("a.csv", "a"),
             StartsWith("data a.csv: a file of this kind cannot be read; give .txt, .jsonl, .parquet, .tokens"));
  TempFolder folder;
  DatasetOptions options;
  options.sequence_length = 2;
  options.inputs = {{folder.path() / "none.txt", std::nullopt}};
  CHECK(data_error(options) ==
        "data " + (folder.path() / "none.txt").string() + ": there is no such file or folder; check the path");
  options.inputs = {{folder.path(), std::nullopt}};
  CHECK_THAT(data_error(options), Catch::Matchers::Contains("the folder holds no file of .txt, .jsonl"));
}

TEST_CASE("a Git LFS pointer is called one, whatever file it replaces") {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid "
      "sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
      "size 12345\n";
  for (const char* name : {"a.txt", "a.jsonl", "a.jsonl.gz", "a.txt.zst", "a.tokens", "a.bin"}) {
    INFO(name);
    CHECK_THAT(error_for_data(name, pointer), StartsWith(std::string(name) + ": is a Git LFS pointer, not the file itself"));
  }
}

TEST_CASE("rows of UTF-16 and UTF-32 are known by their byte-order mark") {
  const std::string little("\xFF\xFE{\0\"\0\n\0", 8), big("\xFE\xFF\0{\0\"\0\n", 8), wide("\xFF\xFE\0\0{\0\0\0", 8);
  CHECK_THAT(error_for_data("a.jsonl", little), StartsWith("a.jsonl: is text in UTF-16, by its byte-order mark"));
  CHECK_THAT(error_for_data("a.jsonl", big), StartsWith("a.jsonl: is text in UTF-16, by its byte-order mark"));
  CHECK_THAT(error_for_data("a.jsonl", wide), StartsWith("a.jsonl: is text in UTF-32, by its byte-order mark"));
  CHECK(error_for_data("a.jsonl", "\xEF\xBB\xBF{\"text\": \"abc\"}") == "no error");
}

TEST_CASE("an index that is empty, of nothing, or given instead of its data is refused") {
  const TempFolder folder;
  const auto error = [&](const char* name) {
    DatasetOptions options;
    options.sequence_length = 2;
    options.inputs = {{folder.path() / name, std::nullopt}};
    return data_error(options).substr(folder.path().string().size() + 1);
  };
  folder.write("a.bin", std::string(64, '\1'));
  folder.write("a.idx", "");
  CHECK_THAT(error("a.bin"), StartsWith("a.idx: is empty, but should describe the file of ids next to it"));
  std::string index("MMIDIDX\0\0\1\0\0\0\0\0\0\0\x8", 18);
  folder.write("a.idx", index + std::string(16, '\0'));
  CHECK_THAT(error("a.bin"), StartsWith("a.idx: is the index of no sequence at all"));
  CHECK_THAT(error("a.idx"), Catch::Matchers::Contains("a.idx: is the index of a file of tokens; give the .bin next to it"));
  folder.write("b.ds", std::string(64, '\1'));
  folder.write("b.ds.index", "");
  CHECK_THAT(error("b.ds"), StartsWith("b.ds.index: is empty, but should describe"));
}

TEST_CASE("a sequence longer than the model's is refused") {
  CHECK_THAT(error_for_data("a.jsonl", "{\"input_ids\":[1,2,3,4,5,6]}\n", std::nullopt, 256, 4),
             StartsWith("a.jsonl:1: a sequence of 5 is longer than the 4 positions of the model"));
  CHECK_THAT(error_for_data("a.txt", "abcdefgh", 5, 256, 4),
             StartsWith("seq-len 5: a sequence of 5 is longer than the 4 positions"));
  CHECK(error_for_data("a.txt", "abcdefgh", 4, 256, 4) == "no error");
  CHECK_THAT(error_for_data("a.txt", "abcdefgh", std::nullopt), StartsWith("seq-len: neither the model nor the data"));
}

TEST_CASE("weights are numbers above 0") {
  TempFolder folder;
  const std::string file = folder.write("a.txt", "abcdefgh").string();
  const std::string odd = folder.write("b.txt:2", "abcdefgh").string();
  CHECK(parse_data_input(file + ":0.25").weight == 0.25);
  CHECK(parse_data_input(file + ":0.25").path == file);
  CHECK_FALSE(parse_data_input(file).weight);
  CHECK_FALSE(parse_data_input(odd).weight);  // that file exists
  for (const char* weight : {"0", "-1", "nan", "inf", "two", "1x", ""})
    CHECK_THROWS_AS(parse_data_input(file + ":" + weight), Error);
}
