// Rows that are wrong, by name: each is refused with the file, its line and the fault.
#include "catch.hpp"
#include "core/error.hpp"
#include "data/open_dataset.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using Catch::Matchers::StartsWith;

namespace {

struct BadRow {
  const char* name;
  std::string row;
  const char* why;  // the beginning of its error, after "rows.jsonl:3: "
};

struct Rows {
  const char* name;
  std::string good;  // a right row of the same form
  DatasetOptions options;
  std::vector<BadRow> bad;
};

DatasetOptions small() {
  DatasetOptions options;
  options.vocabulary = 300;
  options.max_positions = 64;
  options.threads = 1;
  return options;
}

DatasetOptions with_length(std::int64_t length) {
  DatasetOptions options = small();
  options.sequence_length = length;
  return options;
}

DatasetOptions with_classes() {
  DatasetOptions options = small();
  options.classes = 3;
  return options;
}

DatasetOptions with_keys() {
  DatasetOptions options = small();
  options.text_keys.names = {"one", "two"};
  options.sequence_length = 4;
  return options;
}

DatasetOptions with_chat(const char* name = "chatml") {
  DatasetOptions options = small();
  options.chat_template = name;
  options.max_positions = 300;
  return options;
}

const char* const not_json = "this row is not JSON";

Rows prompts() {
  return {
      "prompt and response",
      R"({"prompt": "a", "response": "b"})",
      small(),
      {{"no response", R"({"prompt": "a"})", R"(this row has no "response")"},
       {"no prompt", R"({"response": "a"})", R"(this row has no "prompt")"},
       {"an empty response", R"({"prompt": "a", "response": ""})", R"("response" is empty, so there is nothing to learn)"},
       {"a prompt that is a number", R"({"prompt": 1, "response": "b"})", R"("prompt" is not a string)"},
       {"a prompt that is null", R"({"prompt": null, "response": "b"})", R"(this row has no "prompt")"},
       {"a prompt that is a list", R"({"prompt": ["a"], "response": "b"})", R"("prompt" is not a string)"},
       {"a prompt that is an object", R"({"prompt": {}, "response": "b"})", R"("prompt" is not a string)"},
       {"a response that is a number", R"({"prompt": "a", "response": 1})", R"("response" is not a string)"},
       {"a response that is true", R"({"prompt": "a", "response": true})", R"("response" is not a string)"},
       {"a response that is null", R"({"prompt": "a", "response": null})", R"(this row has no "response")"},
       {"a prompt twice", R"({"prompt": "a", "prompt": "a", "response": "b"})", R"("prompt" appears twice)"},
       {"a response twice", R"({"prompt": "a", "response": "a", "response": "b"})", R"("response" appears twice)"},
       {"a text too", R"({"text": "a", "prompt": "a", "response": "b"})", R"(this row has both "text" and "prompt")"},
       {"messages too", R"({"messages": [], "prompt": "a", "response": "b"})", R"(this row has both "prompt" and "messages")"},
       {"ids too", R"({"input_ids": [1], "prompt": "a", "response": "b"})", R"(this row has both "prompt" and "input_ids")"},
       {"labels", R"({"labels": [1], "prompt": "a", "response": "b"})", R"(this row has "labels", but no "input_ids")"},
       {"a label", R"({"label": 1, "prompt": "a", "response": "b"})", R"("label", a class, goes with a text)"},
       {"another kind of row", R"({"text": "a"})", R"(this row has "text", but the rows before it have "prompt")"},
       {"ids instead", R"({"input_ids": [1, 2]})", R"(this row has "input_ids", but the rows before it have "prompt")"},
       {"too long", R"({"prompt": "a", "response": ")" + std::string(65, 'b') + R"("})",
        "a sequence of 66 is longer than the 64"},
       {"no value", R"({"prompt": , "response": "b"})", not_json},
       {"no comma", R"({"prompt": "a" "response": "b"})", not_json},
       {"one brace too many", R"({"prompt": "a", "response": "b"}})", not_json},
       {"two rows in a line", R"({"prompt": "a", "response": "b"}{"prompt": "a", "response": "b"})", not_json},
       {"a key without quotes", R"({prompt: "a", "response": "b"})", not_json},
       {"single quotes", R"({'prompt': 'a', 'response': 'b'})", not_json},
       {"a comma at the end", R"({"prompt": "a", "response": "b",})", not_json},
       {"a string that does not end", R"({"prompt": "a", "response": "b)", not_json},
       {"half an escape", R"({"prompt": "a", "response": "\u12"})", not_json},
       {"an unknown escape", R"({"prompt": "a", "response": "\x41"})", not_json},
       {"half a surrogate pair", R"({"prompt": "a", "response": "\ud800"})", not_json},
       {"a control character", "{\"prompt\": \"a\", \"response\": \"\x01\"}", not_json},
       {"a byte that is no UTF-8", "{\"prompt\": \"a\", \"response\": \"\xc3\"}", not_json},
       {"a comment", R"({"prompt": "a", "response": "b"} // c)", not_json}}};
}

Rows chats() {
  const std::string user = R"({"role": "user", "content": "u"})", assistant = R"({"role": "assistant", "content": "a"})";
  const auto messages = [](const std::string& list) { return R"({"messages": [)" + list + "]}"; };
  return {
      "messages",
      messages(user + "," + assistant),
      with_chat(),
      {{"no list", R"({"messages": "a"})", R"("messages" is not an array of objects)"},
       {"null", R"({"messages": null})", "this row has neither"},
       {"an object", R"({"messages": {"role": "user"}})", R"("messages" is not an array of objects)"},
       {"none", messages(""), "messages: there are none"},
       {"texts", messages(R"("a", "b")"), R"("messages" is not an array of objects)"},
       {"lists", messages(R"([["user", "a"]])"), R"("messages" is not an array of objects)"},
       {"an empty message", messages("{}"), R"(messages[0] has no "role")"},
       {"no role", messages(R"({"content": "a"})"), R"(messages[0] has no "role")"},
       {"no content", messages(user + R"(, {"role": "assistant"})"), R"(messages[1] has no "content")"},
       {"a role twice", messages(R"({"role": "user", "role": "user", "content": "a"})"), R"(messages[0] has "role" twice)"},
       {"a content twice", messages(R"({"role": "user", "content": "b", "content": "a"})"),
        R"(messages[0] has "content" twice)"},
       {"tools", messages(user + R"(, {"role": "assistant", "tool_calls": [1]})"),
        R"(messages[1] has "tool_calls", which is not read)"},
       {"a role that is a number", messages(R"({"role": 1, "content": "a"})"),
        R"(messages[0] has a "role" or "content" that is not a string)"},
       {"a content that is null", messages(R"({"role": "user", "content": null})"), R"(messages[0] has no "content")"},
       {"a content in parts", messages(R"({"role": "user", "content": [{"type": "text"}]})"),
        R"(messages[0] has a "role" or "content")"},
       {"an unknown role", messages(R"({"role": "tool", "content": "a"})"),
        "messages: number 0 is of the role 'tool', not 'user'"},
       {"the system alone", messages(R"({"role": "system", "content": "a"})"), "messages: there is only that of the system"},
       {"an answer first", messages(assistant), "messages: number 0 is of the role 'assistant', not 'user'"},
       {"two questions", messages(user + "," + user), "messages: number 1 is of the role 'user', not 'assistant'"},
       {"two answers", messages(user + "," + assistant + "," + assistant), "messages: number 2 is of the role 'assistant'"},
       {"the system in between", messages(user + R"(, {"role": "system", "content": "a"})"),
        "messages: number 1 is of the role 'system'"},
       {"no answer", messages(user), "messages: none has the role assistant, so there is nothing to learn"},
       {"too long", messages(user + R"(, {"role": "assistant", "content": ")" + std::string(300, 'a') + "\"}"),
        "a sequence of"},
       {"labels", R"({"messages": [], "labels": [1]})", R"(this row has "labels", but no "input_ids")"},
       {"a label", R"({"messages": [], "label": 1})", R"("label", a class, goes with a text)"},
       {"ids too", R"({"messages": [], "input_ids": [1]})", R"(this row has both "messages" and "input_ids")"},
       {"a text too", R"({"messages": [], "text": "a"})", R"(this row has both "text" and "messages")"},
       {"messages twice", R"({"messages": [], "messages": []})", R"("messages" appears twice)"},
       {"another kind of row", R"({"prompt": "a", "response": "b"})",
        R"(this row has "prompt", but the rows before it have "messages")"},
       {"a list that does not end", R"({"messages": [{"role": "user", "content": "a"})", not_json}}};
}

Rows ids() {
  return {"input_ids and labels",
          R"({"input_ids": [1, 2, 3], "labels": [-100, 2, 3]})",
          small(),
          {{"fewer labels", R"({"input_ids": [1, 2, 3], "labels": [1, 2]})", "this row has 2 labels for 3 input_ids"},
           {"more labels", R"({"input_ids": [1, 2], "labels": [1, 2, 3]})", "this row has 3 labels for 2 input_ids"},
           {"no labels in the list", R"({"input_ids": [1, 2], "labels": []})", "this row has 0 labels for 2 input_ids"},
           {"a label of -1", R"({"input_ids": [1, 2], "labels": [1, -1]})", "labels[1] is -1, outside"},
           {"a label above the vocabulary", R"({"input_ids": [1, 2], "labels": [1, 300]})", "labels[1] is 300, outside"},
           {"a label of 2^64 - 1", R"({"input_ids": [1, 2], "labels": [1, 18446744073709551615]})",
            "labels[1] is 18446744073709551615"},
           {"a label that is a fraction", R"({"input_ids": [1, 2], "labels": [1, 2.5]})", "labels[1] is 2.5, not an integer"},
           {"a label that is a text", R"({"input_ids": [1, 2], "labels": [1, "2"]})", "labels[1] is \"2\", not an integer"},
           {"a label that is null", R"({"input_ids": [1, 2], "labels": [1, null]})", "labels[1] is null, not an integer"},
           {"a label that is a list", R"({"input_ids": [1, 2], "labels": [1, [2]]})", "labels[1] is [2], not an integer"},
           {"labels that are a number", R"({"input_ids": [1, 2], "labels": 3})", R"("labels" is not an array)"},
           {"labels that are a text", R"({"input_ids": [1, 2], "labels": "all"})", R"("labels" is not an array)"},
           {"labels alone", R"({"labels": [1, 2]})", "this row has neither"},
           {"labels twice", R"({"input_ids": [1, 2], "labels": [1, 2], "labels": [1, 2]})", R"("labels" appears twice)"},
           {"nothing to learn", R"({"input_ids": [1, 2], "labels": [-100, -100]})", "no label of this row counts"},
           {"only the first to learn", R"({"input_ids": [1, 2], "labels": [1, -100]})", "no label of this row counts"},
           {"a class too", R"({"input_ids": [1, 2], "labels": [1, 2], "label": 1})", R"("label", a class, goes with)"},
           {"a class without classes", R"({"input_ids": [1, 2], "label": 1})", R"(rows with "label" are for classification)"},
           {"one id", R"({"input_ids": [1]})", "a sample needs at least 2 tokens"},
           {"a list of ids in a list", R"({"input_ids": [[1, 2, 3]]})",
            "input_ids[0] is [1,2,3], not an integer; write one flat list of token ids a row"},
           {"no ids", R"({"input_ids": []})", "a sample needs at least 2 tokens"},
           {"an id of -100", R"({"input_ids": [1, -100]})", "input_ids[1] is -100, outside"},
           {"an id of 1e3", R"({"input_ids": [1, 1e3]})", "input_ids[1] is 1000.0, not an integer"},
           {"an id that is true", R"({"input_ids": [1, true]})", "input_ids[1] is true, not an integer"},
           {"an id that is an object", R"({"input_ids": [1, {"a": 2}]})", "input_ids[1] is {\"a\":2}, not an integer"},
           {"an id with a leading zero", R"({"input_ids": [1, 02]})", not_json},
           {"an id with a plus", R"({"input_ids": [1, +2]})", not_json},
           {"an id of NaN", R"({"input_ids": [1, NaN]})", not_json},
           {"an id in hexadecimal", R"({"input_ids": [1, 0x2]})", not_json},
           {"ids that are a text", R"({"input_ids": "1 2 3"})", R"("input_ids" is not an array)"},
           {"ids that are an object", R"({"input_ids": {"0": 1}})", R"("input_ids" is not an array)"},
           {"ids that are null", R"({"input_ids": null})", "this row has neither"},
           {"an empty object", "{}", "this row has neither"},
           {"a number", "17", "this row is not a JSON object"},
           {"a text", "\"row\"", "this row is not a JSON object"},
           {"null", "null", "this row is not a JSON object"},
           {"a list", "[{}]", "this row is not a JSON object"}}};
}

Rows classes() {
  return {
      "text and label",
      R"({"text": "a", "label": 0})",
      with_classes(),
      {{"no label", R"({"text": "a"})", R"(this row has no "label", the number of its class from 0 to 2)"},
       {"a label of 3", R"({"text": "a", "label": 3})", R"("label" is 3; the labels of 3 classes go from 0 to 2)"},
       {"a label of -1", R"({"text": "a", "label": -1})", R"("label" is -1;)"},
       {"a label of -100", R"({"text": "a", "label": -100})", R"("label" is -100;)"},
       {"a label of 2^63", R"({"text": "a", "label": 9223372036854775808})", R"("label" is not an integer)"},
       {"a label that is a text", R"({"text": "a", "label": "1"})", R"("label" is not an integer)"},
       {"a label that is a fraction", R"({"text": "a", "label": 1.5})", R"("label" is not an integer)"},
       {"a label that is 1.0", R"({"text": "a", "label": 1.0})", R"("label" is not an integer)"},
       {"a label that is true", R"({"text": "a", "label": true})", R"("label" is not an integer)"},
       {"a label that is null", R"({"text": "a", "label": null})", R"(this row has no "label")"},
       {"a label that is a list", R"({"text": "a", "label": [1]})", R"("label" is not an integer)"},
       {"a label that is an object", R"({"text": "a", "label": {}})", R"("label" is not an integer)"},
       {"a label twice", R"({"text": "a", "label": 1, "label": 1})", R"("label" appears twice)"},
       {"an empty text", R"({"text": "", "label": 1})", "this row is empty"},
       {"a label alone", R"({"label": 1})", "this row has neither"},
       {"a text that is a number", R"({"text": 1, "label": 1})", R"("text" is not a string)"},
       {"too long", R"({"label": 1, "text": ")" + std::string(65, 'b') + R"("})", "a sequence of 65 is longer than the 64"},
       {"labels", R"({"text": "a", "labels": [1]})", R"(this row has "labels", but no "input_ids")"},
       {"a prompt", R"({"prompt": "a", "response": "b"})", R"(this row has "prompt", but the rows before it have "text")"}}};
}

Rows keys() {
  return {"texts of other keys",
          R"({"one": "a", "two": "b"})",
          with_keys(),
          {{"one key", R"({"one": "a"})", R"(this row has no "two"; add it)"},
           {"the other key", R"({"two": "a"})", R"(this row has no "one"; add it)"},
           {"none of them", R"({"text": "a"})", R"(this row has neither "one" nor)"},
           {"a number", R"({"one": "a", "two": 2})", R"("two" is not a string; write {"two": "..."})"},
           {"a list", R"({"one": ["a"], "two": "b"})", R"("one" is not a string)"},
           {"a key twice", R"({"one": "a", "one": "a", "two": "b"})", R"("one" appears twice)"},
           {"a label", R"({"one": "a", "two": "b", "label": 1})", R"(rows with "label" are for classification)"},
           {"ids too", R"({"one": "a", "input_ids": [1]})", R"(this row has both "one" and "input_ids")"},
           {"a prompt too", R"({"one": "a", "prompt": "b"})", R"(this row has both "one" and "prompt")"}}};
}

Rows texts() {
  return {"text",
          R"({"text": "abc"})",
          with_length(2),
          {{"a text that is a number", R"({"text": 3})", R"("text" is not a string)"},
           {"a text that is null", R"({"text": null})", "this row has neither"},
           {"a text that is false", R"({"text": false})", R"("text" is not a string)"},
           {"a text that is a list", R"({"text": ["a"]})", R"("text" is not a string)"},
           {"a text that is an object", R"({"text": {"a": "b"}})", R"("text" is not a string)"},
           {"a text twice", R"({"text": "a", "text": "b"})", R"("text" appears twice)"},
           {"a text of another key", R"({"content": "abc"})", "this row has neither"},
           {"a key in capitals", R"({"Text": "abc"})", "this row has neither"},
           {"ids too", R"({"text": "a", "input_ids": [1]})", R"(this row has both "text" and "input_ids")"},
           {"a class", R"({"text": "a", "label": 0})", R"(rows with "label" are for classification)"},
           {"labels", R"({"text": "a", "labels": [0]})", R"(this row has "labels", but no "input_ids")"},
           {"no quotes", R"({"text": abc})", not_json},
           {"no colon", R"({"text" "abc"})", not_json},
           {"no end", R"({"text": "abc")", not_json},
           {"a tab in a text", "{\"text\": \"a\tb\"}", not_json},
           {"a surrogate as bytes", "{\"text\": \"\xED\xA0\x80\"}", not_json},
           {"a character beyond Unicode", "{\"text\": \"\xF4\x90\x80\x80\"}", not_json},
           {"an overlong character", "{\"text\": \"\xC0\x80\"}", not_json},
           {"UTF-16", std::string("{\0\"\0t\0\"\0:\0\"\0\"\0}\0", 16), not_json},
           {"a row of CSV", "abc,def", not_json}}};
}

std::string rows_error(const Rows& rows, const std::string& content) {
  const TempFolder folder;
  DatasetOptions options = rows.options;
  options.inputs = {{folder.write("rows.jsonl", content), std::nullopt}};
  try {
    open_dataset(options);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);  // exit status 2
    std::string text = error.what();
    CHECK(text.find('\n') == std::string::npos);
    const std::string prefix = folder.path().string() + "/";
    if (const auto at = text.find(prefix); at != std::string::npos) text.erase(at, prefix.size());
    return text;
  }
  return "no error";
}

}  // namespace

TEST_CASE("every wrong row is refused with its file, its line and what is wrong") {
  std::size_t refused = 0;
  for (const Rows& rows : {prompts(), chats(), ids(), classes(), keys(), texts()}) {
    INFO(rows.name);
    std::string many;
    for (int i = 0; i < 20; ++i) many += rows.good + "\n";
    CHECK(rows_error(rows, many) == "no error");
    for (const BadRow& bad : rows.bad) {
      INFO(bad.name);
      CHECK_THAT(rows_error(rows, rows.good + "\n\n" + bad.row + "\n" + many),
                 StartsWith(std::string("rows.jsonl:3: ") + bad.why));
      const bool is_wrong_alone = std::string(bad.why).find("but the rows before") == std::string::npos;
      if (is_wrong_alone) CHECK_THAT(rows_error(rows, bad.row), StartsWith("rows.jsonl:1: "));  // also without a newline
      ++refused;
    }
  }
  CHECK(refused == 149);
}
