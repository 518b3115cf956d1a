// Parquet files give the same samples as the same rows in JSON lines, whatever the layout of the file.
#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "catch.hpp"
#include "core/error.hpp"
#include "data/open_dataset.hpp"
#include "paths.hpp"
#include "run_program.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using ParquetJson = nlohmann::json;

namespace {

namespace fs = std::filesystem;

DatasetOptions parquet_options(const fs::path& path) {
  DatasetOptions options;
  options.inputs = {{path, std::nullopt}};
  options.vocabulary = 1000;
  options.default_sequence_length = 16;
  options.threads = 2;
  return options;
}

// All samples, and the values from which they are computed.
struct Everything {
  std::vector<std::vector<std::int32_t>> ids, labels, documents;
  std::int64_t length = 0;
  std::uint64_t content = 0;
  bool operator==(const Everything&) const = default;
};

Everything read_all(const DatasetOptions& options) {
  const auto data = open_dataset(options);
  Everything all{{}, {}, {}, data->sequence_length(), data->content()};
  Sample sample;
  for (std::int64_t i = 0; i < data->size(); ++i) {
    data->read(i, sample);
    all.ids.push_back(sample.ids);
    all.labels.push_back(sample.labels);
    all.documents.push_back(sample.documents);
  }
  return all;
}

// A text of odd characters, of some hundred bytes, or, with `most`, of up to that many.
std::string random_text(std::mt19937& random, std::size_t most = 300) {
  static const std::vector<std::string> pieces = {
      "a",  "the ", "\n",    "\"", "\\", "\t", std::string(1, '\0'), "\b", "é", "/", "\x7f", "\xF0\x9F\x98\x80",
      "{}", "\\n",  "\u2028"};
  std::string text;
  for (std::size_t left = random() % most; left > 0; --left) text += pieces[random() % pieces.size()];
  return text;
}

struct Form {
  const char* name;
  std::function<ParquetJson(std::mt19937&)> row;
  std::function<void(DatasetOptions&)> change = [](DatasetOptions&) {};
};

ParquetJson ids_of(std::mt19937& random, std::size_t size) {
  ParquetJson list = ParquetJson::array();
  for (std::size_t i = 0; i < size; ++i) list.push_back(random() % 1000);
  return list;
}

// The label is one of three classes.
void classify(DatasetOptions& options) { options.classes = 3; }

ParquetJson random_chat(std::mt19937& random) {
  ParquetJson messages = ParquetJson::array();
  if (random() % 2 == 0) messages.push_back({{"role", "system"}, {"content", random_text(random)}});
  for (auto turns = 1 + random() % 3; turns > 0; --turns) {
    messages.push_back({{"role", "user"}, {"content", random_text(random)}});
    messages.push_back({{"content", random_text(random)}, {"role", "assistant"}});
  }
  return ParquetJson{{"messages", messages}};
}

ParquetJson random_labels(std::mt19937& random) {
  const std::size_t size = 2 + random() % 30;
  ParquetJson labels = ids_of(random, size);
  labels[0] = -100;
  return ParquetJson{{"input_ids", ids_of(random, size)}, {"labels", labels}};
}

std::vector<Form> forms() {
  return {{"text",
           [](auto& random) {
             return ParquetJson{{"id", random()}, {"text", random_text(random)}};
           }},
          {"text, not packed",
           [](auto& random) {
             return ParquetJson{{"text", random_text(random)}};
           },
           [](auto& options) { options.pack = Pack::none; }},
          {"two texts",
           [](auto& random) {
             return ParquetJson{{"b", random_text(random)}, {"a", random_text(random)}};
           },
           [](auto& options) {
             options.text_keys.names = {"a", "b"};
           }},
          {"text and label",
           [](auto& random) {
             return ParquetJson{{"text", "x" + random_text(random)}, {"label", random() % 3}};
           },
           classify},
          {"prompt and response",
           [](auto& random) {
             return ParquetJson{{"prompt", random_text(random)}, {"response", "y" + random_text(random)}};
           }},
          {"messages", random_chat, [](auto& options) { options.chat_template = "chatml"; }},
          {"input_ids",
           [](auto& random) {
             return ParquetJson{{"input_ids", ids_of(random, 2 + random() % 30)}};
           }},
          {"input_ids and labels", random_labels},
          {"input_ids and label",
           [](auto& random) {
             return ParquetJson{{"input_ids", ids_of(random, 1 + random() % 9)}, {"label", random() % 3}};
           },
           classify}};
}

std::string lines_of(const Form& form, std::mt19937& random, int rows) {
  std::string lines;
  for (int i = 0; i < rows; ++i) lines += form.row(random).dump() + "\n";
  return lines;
}

std::string parquet_error(const DatasetOptions& options) {
  try {
    open_dataset(options);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    const std::string text = error.what();
    CHECK(text.find('\n') == std::string::npos);
    return text.substr(std::min(text.find("rows.parquet"), text.size()));
  }
  return "no error";
}

struct Layout {
  std::string codec = "uncompressed";
  int rows_in_group = 1 << 20, page_bytes = 1 << 20;
  std::string type = "";  // COLUMN=TYPE
};

// Writes the rows to a file of that name.
fs::path write_parquet(const fs::path& path, const std::string& lines, const Layout& layout = {}) {
  const TempFolder folder;
  const Result result = run_program(
      parquet_writer(), fmt::format("'{}' '{}' {} {} {} {}", folder.write("rows.jsonl", lines).string(), path.string(),
                                    layout.codec, layout.rows_in_group, layout.page_bytes, layout.type));
  INFO(result.err);
  REQUIRE(result.status == 0);
  return path;
}

}  // namespace

TEST_CASE("rows of a Parquet file are the samples that they are in JSON lines") {
  const TempFolder folder;
  std::mt19937 random(5);
  const Form form = GENERATE(from_range(forms()));
  INFO(form.name);
  const std::string lines = lines_of(form, random, 60);
  DatasetOptions options = parquet_options(folder.write("rows.jsonl", lines));
  form.change(options);
  const Everything expected = read_all(options);
  options.inputs = {{folder.path() / "rows.parquet", std::nullopt}};
  for (const Layout& layout : {Layout{}, Layout{.rows_in_group = 7, .page_bytes = 64}}) {
    write_parquet(options.inputs[0].path, lines, layout);
    CHECK(read_all(options) == expected);
  }
}

TEST_CASE("Parquet files of every compression are read") {
  const TempFolder folder;
  std::mt19937 random(6);
  const std::string lines = lines_of(forms()[0], random, 100);
  const Everything expected = read_all(parquet_options(folder.write("rows.jsonl", lines)));
  for (const char* codec : {"uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4_raw"}) {
    INFO(codec);
    CHECK(read_all(parquet_options(
              write_parquet(folder.path() / "rows.parquet", lines, {.codec = codec, .rows_in_group = 30}))) == expected);
  }
}

TEST_CASE("Parquet files are read in folders, by wildcards, with weights, and together with JSON lines") {
  const TempFolder folder;
  std::mt19937 random(7);
  DatasetOptions json = parquet_options(folder.path() / "json"), parquet = parquet_options(folder.path() / "parquet");
  for (const char* name : {"a", "b", "c"}) {
    const std::string lines = lines_of(forms()[0], random, 20);
    folder.write(fmt::format("json/{}.jsonl", name), lines);
    fs::create_directories(folder.path() / "parquet");
    if (*name == 'b')
      folder.write("parquet/b.jsonl", lines);
    else
      write_parquet(folder.path() / "parquet" / (std::string(name) + ".parquet"), lines);
  }
  CHECK(read_all(parquet) == read_all(json));
  json.inputs = {{folder.path() / "json" / "[ac].jsonl", 1}, {folder.path() / "json" / "b.jsonl", 3}};
  parquet.inputs = {{folder.path() / "parquet" / "*.parquet", 1}, {folder.path() / "parquet" / "b.jsonl", 3}};
  json.seed = parquet.seed = 3;
  CHECK(read_all(parquet) == read_all(json));
}

TEST_CASE("texts of a dictionary, large texts, bytes, and every width of integers are read") {
  const TempFolder folder;
  const auto expect = [&](const std::string& type, const std::string& lines) {
    INFO(type);
    const fs::path file = write_parquet(folder.path() / "rows.parquet", lines, {.rows_in_group = 2, .type = type});
    CHECK(read_all(parquet_options(file)) == read_all(parquet_options(folder.write("rows.jsonl", lines))));
  };
  for (const char* type : {"large_string", "binary", "large_binary", "dictionary"})
    expect(std::string("text=") + type,
           "{\"text\":\"it was the best of times\"}\n{\"text\":\"it was the worst of times\"}\n"
           "{\"text\":\"it was the best of times\"}\n");
  for (const char* integer : {"int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"})
    for (const char* list : {"list", "large_list", "fixed:3"})
      expect(fmt::format("input_ids={}:{}", list, integer),
             "{\"input_ids\":[1,2,3]}\n{\"input_ids\":[4,5,6]}\n{\"input_ids\":[7,8,9]}\n");
}

TEST_CASE("long texts and rows of many parts are read", "[slow]") {
  const TempFolder folder;
  std::mt19937 random(8);
  std::string lines;
  for (int i = 0; i < 12; ++i)
    lines += ParquetJson{{"text", random_text(random, i % 4 == 0 ? 2'000'000 : 100'000)}}.dump() + "\n";
  for (int i = 0; i < 9000; ++i) lines += ParquetJson{{"text", std::to_string(i)}}.dump() + "\n";
  const fs::path file = write_parquet(folder.path() / "rows.parquet", lines, {.rows_in_group = 5000});
  DatasetOptions options = parquet_options(file);
  options.sequence_length = 100'000;
  const Everything found = read_all(options);
  options.inputs = {{folder.write("rows.jsonl", lines), std::nullopt}};
  CHECK(found == read_all(options));
}

TEST_CASE("a message's fields that are null are not there") {
  const TempFolder folder;
  const fs::path file = folder.path() / "rows.parquet";
  const std::string user = R"({"role":"user","content":"u"})";
  DatasetOptions options = parquet_options(file);
  options.chat_template = "chatml";
  write_parquet(file, R"({"messages":[)" + user + R"(,{"role":"assistant","content":"a","name":null}]})");
  CHECK(open_dataset(options)->size() == 1);
  write_parquet(file, R"({"messages":[)" + user + R"(,{"role":"assistant","content":"a","name":"b"}]})");
  CHECK_THAT(parquet_error(options), Contains("rows.parquet:1: messages[1] has \"name\", which is not read"));
  write_parquet(file, R"({"messages":[)" + user + R"(,{"role":"assistant","content":null}]})");
  CHECK_THAT(parquet_error(options), Contains("rows.parquet:1: messages[1] has no \"content\""));
}

TEST_CASE("further columns of a Parquet file are treated like the keys of JSON lines") {
  const TempFolder folder;
  const auto notes_and_rows = [&](const fs::path& file) {
    std::vector<std::string> notes;
    DatasetOptions options = parquet_options(file);
    options.notes = &notes;
    const Everything all = read_all(options);
    return std::pair(notes, all);
  };
  for (const char* lines :
       {R"({"text":"it was the best","id":1,"foo":[1],"bar":null,"weight":1})"
        "\n"
        R"({"text":"of times, it was","id":2,"foo":[2],"bar":"b","weight":1.0})"
        "\n",
        R"({"input_ids":[1,2,3,0],"attention_mask":[1,1,1,0],"labels":null,"tools":null})"
        "\n"
        R"({"input_ids":[4,5,6,7],"attention_mask":[1,1,1,1],"labels":null,"tools":[]})"
        "\n",
        R"({"input_ids":[1,2,3],"completion_mask":[false,true,false],"assistant_masks":[1,1,1],"text":null})"
        "\n"}) {
    INFO(lines);
    const auto expected = notes_and_rows(folder.write("rows.jsonl", lines));
    const auto found = notes_and_rows(write_parquet(folder.path() / "rows.parquet", lines));
    CHECK(found.first == expected.first);
    CHECK(found.second == expected.second);
  }
  CHECK(notes_and_rows(write_parquet(folder.path() / "rows.parquet", R"({"input_ids":[1,2],"foo":1,"url":"u"})")).first ==
        std::vector<std::string>{R"(data: these keys of rows are not read: "foo")"});
}

TEST_CASE("a wrong row of a Parquet file is reported with its number") {
  const TempFolder folder;
  const fs::path file = folder.path() / "rows.parquet";
  struct Bad {
    const char *name, *good, *bad, *why;
  };
  const auto [name, good, bad, why] = GENERATE(values<Bad>(
      {{"a null text", R"({"text":"a"})", R"({"text":null})", R"(this row has neither "text" nor)"},
       {"no response", R"({"prompt":"a","response":"b"})", R"({"prompt":"a"})", R"(this row has no "response"; add it)"},
       {"an empty response", R"({"prompt":"a","response":"b"})", R"({"prompt":"a","response":""})", R"("response" is empty)"},
       {"null messages", R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"a"}]})",
        R"({"messages":null})", R"(this row has neither "text" nor)"},
       {"a null message", R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"a"}]})",
        R"({"messages":[null]})", R"("messages" is not an array of objects)"},
       {"null ids", R"({"input_ids":[1,2]})", R"({"input_ids":null})", R"(this row has neither "text" nor)"},
       {"a null id", R"({"input_ids":[1,2]})", R"({"input_ids":[1,null]})", "input_ids[1] is null, not an integer"},
       {"an id above the vocabulary", R"({"input_ids":[1,2]})", R"({"input_ids":[1,1000]})", "input_ids[1] is 1000, outside"},
       {"a negative id", R"({"input_ids":[1,2]})", R"({"input_ids":[-1,2]})", "input_ids[0] is -1, outside"},
       {"one id", R"({"input_ids":[1,2]})", R"({"input_ids":[1]})", "a sample needs at least 2 tokens"},
       {"fewer labels", R"({"input_ids":[1,2],"labels":[1,2]})", R"({"input_ids":[1,2],"labels":[1]})",
        "this row has 1 labels for 2 input_ids"},
       {"a weight", R"({"text":"a","weight":1.0})", R"({"text":"a","weight":0.5})", R"("weight" is not read)"},
       {"tools", R"({"text":"a","tools":null})", R"({"text":"a","tools":[{"name":"t"}]})", R"("tools" is not read)"},
       {"an image", R"({"text":"a"})", R"({"text":"a","image":{"path":"p"}})", R"("image" is not read)"},
       {"a system's text", R"({"text":"a","system":""})", R"({"text":"a","system":"s"})", R"("system" is not read)"},
       {"a mask in front", R"({"input_ids":[1,2],"attention_mask":[1,1]})", R"({"input_ids":[1,2],"attention_mask":[0,1]})",
        "attention_mask[0] is 0 and attention_mask[1]"},
       {"a mask of truths", R"({"input_ids":[1,2],"completion_mask":[true,true]})",
        R"({"input_ids":[1,2],"completion_mask":[true,false]})", "no label of this row counts"},
       {"a message that does not count",
        R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"a","weight":1}]})",
        R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"a","weight":0}]})",
        R"(messages[1] has "weight", which is not read)"},
       {"nothing to learn", R"({"input_ids":[1,2],"labels":[1,2]})", R"({"input_ids":[1,2],"labels":[-100,-100]})",
        "no label of this row counts"}}));
  DatasetOptions options = parquet_options(file);
  options.chat_template = "chatml";
  INFO(name);
  write_parquet(file, fmt::format("{}\n{}\n{}\n{}\n", good, good, bad, good), {.rows_in_group = 2});
  CHECK_THAT(parquet_error(options), StartsWith(fmt::format("rows.parquet:3: {}", why)));
}

TEST_CASE("the types of a Parquet file's columns are checked before its rows") {
  const TempFolder folder;
  const fs::path file = folder.path() / "rows.parquet";
  struct Bad {
    const char *name, *rows, *why;
  };
  const auto [name, rows, why] = GENERATE(values<Bad>(
      {{"no column that is read", R"({"title":"a","id":7})",
        R"(has no column "text", "prompt", "messages" or "input_ids"; it has title, id)"},
       {"only a label", R"({"label":1})", R"(:1: this row has neither "text" nor)"},
       {"a text of numbers", R"({"text":7})", R"(the column "text" is of type int64; it must hold texts (string))"},
       {"a text of fractions", R"({"text":7.5})", R"(the column "text" is of type double; it must hold texts (string))"},
       {"a text of truths", R"({"text":true})", R"(the column "text" is of type bool; it must hold texts (string))"},
       {"a text of lists", R"({"text":["a"]})", R"(the column "text" is of type list<)"},
       {"a text of structs", R"({"text":{"a":"b"}})", R"(the column "text" is of type struct<)"},
       {"a text of nulls", R"({"text":null})", R"(has no column "text", "prompt", "messages" or "input_ids"; it has text)"},
       {"a mask of texts", R"({"input_ids":[1,2],"attention_mask":"all"})",
        R"(the column "attention_mask" is of type string; it must hold lists of integers)"},
       {"a prompt of numbers", R"({"prompt":1,"response":"a"})", R"(the column "prompt" is of type int64; it must hold texts)"},
       {"a response of lists", R"({"prompt":"a","response":["a"]})", R"(the column "response" is of type list<)"},
       {"no response", R"({"prompt":"a"})", R"(:1: this row has no "response"; add it)"},
       {"a label of texts", R"({"text":"a","label":"good"})", R"(the column "label" is of type string; it must hold integers)"},
       {"a label of truths", R"({"text":"a","label":true})", R"(the column "label" is of type bool; it must hold integers)"},
       {"ids that are numbers", R"({"input_ids":1})",
        R"(the column "input_ids" is of type int64; it must hold lists of integers)"},
       {"ids that are fractions", R"({"input_ids":[1.5]})", R"(the column "input_ids" is of type list<)"},
       {"ids that are texts", R"({"input_ids":["1"]})", R"(the column "input_ids" is of type list<)"},
       {"ids in lists of lists", R"({"input_ids":[[1]]})", R"(the column "input_ids" is of type list<)"},
       {"labels that are texts", R"({"input_ids":[1],"labels":"all"})",
        R"(the column "labels" is of type string; it must hold)"},
       {"messages that are texts", R"({"messages":"a"})",
        R"(the column "messages" is of type string; it must hold lists of structs)"},
       {"messages of texts", R"({"messages":["a"]})", R"(the column "messages" is of type list<)"},
       {"contents in parts without a chat template", R"({"messages":[{"role":"user","content":["a"]}]})",
        R"(:1: messages: the tokenizer has neither)"},
       {"roles of numbers", R"({"messages":[{"role":1,"content":"a"}]})", R"(the column "messages" is of type list<)"},
       {"a text and ids", R"({"text":"a","input_ids":[1,2]})", R"(:1: this row has both "text" and "input_ids")"},
       {"a text and a prompt", R"({"text":"a","prompt":"a","response":"b"})",
        R"(:1: this row has both "text" and "prompt")"}}));
  INFO(name);
  write_parquet(file, rows);
  CHECK_THAT(parquet_error(parquet_options(file)), StartsWith(fmt::format("rows.parquet{}{}", *why == ':' ? "" : ": ", why)));
}

TEST_CASE("if the keys of texts are named, other columns of a Parquet file may be of any type") {
  const TempFolder folder;
  const fs::path file = folder.path() / "rows.parquet";
  DatasetOptions options = parquet_options(file);
  std::vector<std::string> notes;
  options.notes = &notes;
  options.text_keys.chosen = true;
  const char* rows =
      R"({"text":"it was the best","labels":{"name":["spam"],"value":[0.5]},"label":"a","prompt":1,"messages":["m"],"input_ids":"x"})"
      "\n"
      R"({"text":"of times, it was","labels":{"name":["spam"],"value":[0.5]},"label":"b","prompt":2,"messages":["m"],"input_ids":"x"})"
      "\n";
  write_parquet(file, rows);
  const Everything found = read_all(options);
  CHECK(notes == std::vector<std::string>{
                     R"(data: these keys of rows are not read: "input_ids", "label", "labels", "messages", "prompt")"});
  options.inputs = {{folder.write("rows.jsonl", rows), std::nullopt}};
  CHECK(found == read_all(options));
  options.inputs = {{file, std::nullopt}};
  write_parquet(file, R"({"input_ids":[1,2],"labels":"x"})");
  CHECK_THAT(parquet_error(options), StartsWith("rows.parquet:1: \"labels\" is not an array"));
  write_parquet(file, R"({"text":7,"labels":"x"})");
  CHECK_THAT(parquet_error(options), StartsWith("rows.parquet: the column \"text\" is of type int64"));
}

TEST_CASE("a Parquet file with a column's name that is not UTF-8 is refused in one line") {
  const TempFolder folder;
  const fs::path file = write_parquet(folder.path() / "rows.parquet", R"({"text":"some text to learn","moodX":1})");
  std::string bytes = read_file(file);
  for (auto at = bytes.find("moodX"); at != std::string::npos; at = bytes.find("moodX")) bytes.replace(at, 5, "mood\xe9");
  folder.write("rows.parquet", bytes);
  CHECK(parquet_error(parquet_options(file)) == "rows.parquet: the name of one of its columns is not UTF-8; rename the column");
}

TEST_CASE("Parquet files that are damaged, of another kind, or not to be read are refused") {
  const TempFolder folder;
  std::mt19937 random(9);
  const fs::path file = folder.path() / "rows.parquet";
  write_parquet(file, lines_of(forms()[1], random, 50), {.codec = "zstd"});
  const std::string whole = read_file(file);
  const auto error = [&](const std::string& bytes) {
    return parquet_error(parquet_options(folder.write("rows.parquet", bytes)));
  };
  CHECK(error(whole) == "no error");
  CHECK_THAT(error(""), StartsWith("rows.parquet: is empty"));
  CHECK_THAT(error("{\"text\": \"abc\"}"), StartsWith("rows.parquet: is not a Parquet file"));
  CHECK_THAT(error("PAR1"), StartsWith("rows.parquet: does not end as a Parquet file"));
  CHECK_THAT(error("PAR1PAR1"), StartsWith("rows.parquet: does not end as a Parquet file"));
  CHECK_THAT(error(whole.substr(0, whole.size() / 2)), StartsWith("rows.parquet: does not end as a Parquet file"));
  CHECK_THAT(error(whole.substr(0, whole.size() - 1)), StartsWith("rows.parquet: does not end as a Parquet file"));
  CHECK_THAT(error(whole.substr(0, whole.size() - 1) + "E"), StartsWith("rows.parquet: is encrypted"));
  CHECK_THAT(error("PAR1" + std::string(4, '\0') + "PAR1"), StartsWith("rows.parquet: has a footer of 0 bytes"));
  CHECK_THAT(error("PAR1" + std::string(4, '\x7f') + "PAR1"), StartsWith("rows.parquet: has a footer of 2139062143 bytes"));
  std::string footer = whole;
  std::fill(footer.end() - 60, footer.end() - 8, '\xff');
  CHECK_THAT(error(footer), StartsWith("rows.parquet: cannot be read as Parquet (") && Contains("damaged or cut short"));
  std::string page = whole;
  std::fill(page.begin() + 40, page.begin() + 200, '\x55');
  CHECK_THAT(error(page), StartsWith("rows.parquet: cannot be read as Parquet ("));
  const auto changed = [&](const Layout& layout, std::string_view from, std::string_view to) {
    std::string bytes = read_file(write_parquet(file, "{\"text\":\"ok\"}\n{\"text\":\"abcX\"}\n", layout));
    REQUIRE(bytes.rfind(from) != std::string::npos);
    for (auto at = bytes.find(from); at != std::string::npos; at = bytes.find(from)) bytes.replace(at, from.size(), to);
    return error(bytes);
  };
  CHECK(changed({.type = "text=binary"}, "abcX", "abc\xc3") ==
        "rows.parquet:2: \"text\" holds bytes that are not UTF-8; texts are UTF-8");
  // Changes the codec of a column's metadata from Snappy to LZO.
  CHECK_THAT(changed({.codec = "snappy"}, "\x15\x02\x16", "\x15\x06\x16"),
             StartsWith("rows.parquet: the column \"text\" is compressed by lzo, which this Arrow does not read"));
  CHECK_THAT(parquet_error(parquet_options(folder.write("rows.parquet.gz", whole))),
             Contains("a file of this kind cannot be read"));
}

TEST_CASE("Parquet files without room for their rows are refused") {
  const TempFolder folder;
  write_parquet(folder.path() / "rows.parquet", "{\"text\":\"some text\"}");
  ::setenv("TMPDIR", (folder.path() / "none").c_str(), 1);
  const std::string why = parquet_error(parquet_options(folder.path() / "rows.parquet"));
  ::unsetenv("TMPDIR");
  CHECK_THAT(why, StartsWith("rows.parquet: cannot be unpacked into"));
}
