// Keys of rows besides the text: those that would change the text are refused, and the unknown ones among the others
// are named.
#include "data/rows/row_keys.hpp"
#include "catch.hpp"
#include "core/error.hpp"
#include "data/input_error.hpp"
#include "data/open_dataset.hpp"
#include "data/rows/jsonl_row.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

DatasetOptions keys_options() {
  DatasetOptions options;
  options.vocabulary = 300;
  options.chat_template = "chatml";
  options.threads = 1;
  options.pack = Pack::none;
  return options;
}

// Returns the error of rows whose third row has this further member, parsed as a whole and, in a longer row, as a stream.
std::string keys_error(const std::string& row, const std::string& member, DatasetOptions options = keys_options()) {
  const TempFolder folder;
  const std::string with = row.substr(0, row.size() - 1) + (member.empty() ? "" : ", ") + member + "}";
  const std::string filler = R"(, "url": ")" + std::string(longest_parsed_row, 'x') + "\"}";
  std::string error;
  for (const std::string& third : {with, with.substr(0, with.size() - 1) + filler}) {
    options.inputs = {{folder.write("rows.jsonl", row + "\n" + row + "\n" + third + "\n"), std::nullopt}};
    const std::string found = test::input_error(folder, [&] { open_dataset(options); });
    if (!error.empty()) CHECK(found == error);
    error = found;
  }
  return error;
}

const std::string text_row = R"({"text": "abc"})", ids_row = R"({"input_ids": [1, 2, 3]})",
                  answer_row = R"({"prompt": "a", "response": "b"})",
                  chat_row = R"({"messages": [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}]})";

std::vector<std::string> notes_of(const std::string& rows, DatasetOptions options = keys_options()) {
  const TempFolder folder;
  std::vector<std::string> notes;
  options.inputs = {{folder.write("rows.jsonl", rows), std::nullopt}};
  options.notes = &notes;
  open_dataset(options);
  return notes;
}

}  // namespace

TEST_CASE("a key that says more of a row's text, or how much it counts, is refused with its line in every form of row") {
  for (const std::string& row : {text_row, ids_row, answer_row, chat_row})
    for (const char* member : {R"("tools": [{"type": "function"}])",
                               R"("tools": "[{}]")",
                               R"("system": "s")",
                               R"("functions": [1])",
                               R"("documents": ["d"])",
                               R"("images": ["a.png"])",
                               R"("image": {"bytes": "x"})",
                               R"("videos": [1])",
                               R"("audio": "a")",
                               R"("audios": ["a"])",
                               R"("history": [["q", "a"]])",
                               R"("instruction": "i")",
                               R"("input": "i")",
                               R"("output": "o")",
                               R"("question": "q")",
                               R"("answer": "a")",
                               R"("completion": "c")",
                               R"("chosen": "c")",
                               R"("rejected": [{"role": "assistant", "content": "r"}])",
                               R"("margin": 0.5)",
                               R"("chosen_score": 1.5)",
                               R"("kto_tag": false)",
                               R"("reward": 0)",
                               R"("weight": 0.5)",
                               R"("weight": 0)",
                               R"("weights": [1, 0])",
                               R"("train": false)",
                               R"("reasoning_content": "r")",
                               R"("chat_template_kwargs": {"enable_thinking": false})",
                               R"("response_mask": [0, 1])",
                               R"("seq_lengths": [3])"}) {
      INFO(row << " " << member);
      const std::string name(member, std::string_view(member).find('"', 1) + 1);
      CHECK_THAT(keys_error(row, member), StartsWith("rows.jsonl:3: " + name + " is not read: "));
    }
}

TEST_CASE("a key that is null, empty, or counts as any row does is as if it were not there") {
  for (const std::string& row : {text_row, ids_row, answer_row, chat_row})
    for (
        const char* member :
        {R"("tools": null)", R"("tools": [])", R"("system": "")", R"("chat_template_kwargs": {})", R"("images": [])",
         R"("weight": 1)", R"("weight": 1.0)", R"("weight": null)", R"("train": true)", R"("labels": null)", R"("label": null)",
         R"("attention_mask": null)", R"("history": [])", R"("rejected": null)",
         R"("id": 7, "meta": {"tools": [1]}, "source": "web", "language_score": 0.9)",
         R"("score": 3.1, "int_score": 3, "scores": {"a": 1}, "rating": "good", "ratings": [5], "ranking": 0, "prompt_id": "p")"}) {
      INFO(row << " " << member);
      CHECK(keys_error(row, member) == "no error");
    }
  CHECK(keys_error(text_row, R"("prompt": null, "messages": null, "input_ids": null)") == "no error");
  CHECK_THAT(keys_error(text_row, R"("weight": {})"), StartsWith("rows.jsonl:3: \"weight\" is not read"));
}

TEST_CASE("if the keys of texts are named, other keys are ignored except weights") {
  DatasetOptions options = keys_options();
  options.text_keys.chosen = true;
  CHECK(keys_error(text_row, R"("reward": 3, "question": "q")", options) == "no error");
  CHECK_THAT(keys_error(text_row, R"("reward": 3, "weight": 2)", options), StartsWith("rows.jsonl:3: \"weight\" is not read"));
  CHECK_THAT(keys_error(chat_row, R"("tools": [1])", options), StartsWith("rows.jsonl:3: \"tools\" is not read"));
  options.text_keys.names = {"instruction", "output"};
  CHECK(keys_error(R"({"instruction": "i", "output": "o"})", R"("input": "x")", options) == "no error");
  CHECK_THAT(keys_error(text_row, R"("reward": 3)"), Contains("name the keys of the text"));
  CHECK_THAT(keys_error(chat_row, R"("reward": 3)"), !Contains("name the keys of the text"));
}

TEST_CASE("the error about another program's row says how to write it") {
  const TempFolder folder;
  const auto error = [&](const std::string& row) {
    DatasetOptions options = keys_options();
    options.inputs = {{folder.write("rows.jsonl", row), std::nullopt}};
    return test::input_error(folder, [&] { open_dataset(options); });
  };
  CHECK_THAT(error(R"({"instruction": "i", "input": "", "output": "o"})"),
             StartsWith("rows.jsonl:1: \"instruction\" is not read: write the question and its answer as {\"prompt\":"));
  CHECK_THAT(
      error(R"({"prompt": "p", "chosen": "c", "rejected": "r"})"),
      StartsWith(
          "rows.jsonl:1: \"chosen\" is not read: training on preferences takes one of the losses dpo, orpo and kto; choose it, or leave the key out"));
}

TEST_CASE("a prompt that is the first question of the messages once more is passed over") {
  const auto row = [](const std::string& prompt) {
    return R"({"prompt": ")" + prompt + R"(", "prompt_id": "7", "messages": [{"role": "system", "content": "s"}, )" +
           R"({"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}]})";
  };
  CHECK(keys_error(row("u"), "") == "no error");
  CHECK(notes_of(row("u")).empty());
  for (const char* prompt : {"", "s", "U"})
    CHECK_THAT(keys_error(row(prompt), ""), StartsWith("rows.jsonl:1: this row has both \"prompt\" and \"messages\""));
  CHECK_THAT(keys_error(row("u"), R"("response": "a")"), StartsWith("rows.jsonl:3: this row has both"));
}

TEST_CASE("if the keys of texts are named, other forms of rows are ignored and named, whatever their type") {
  DatasetOptions options = keys_options();
  options.text_keys.chosen = true;
  for (const char* member : {R"("prompt": "p")", R"("prompt": [1])", R"("response": {"a": 1})", R"("messages": "m")",
                             R"("messages": [1])", R"("messages": [{"role": "user"}])", R"("input_ids": [70000])",
                             R"("input_ids": "x")", R"("labels": {"name": ["spam"]})", R"("labels": [0])", R"("label": "good")",
                             R"("label": 1)", R"("attention_mask": [1])", R"("position_ids": 3)"}) {
    INFO(member);
    CHECK(keys_error(text_row, member, options) == "no error");
    const std::string name(member, std::string_view(member).find('"', 1) + 1);
    CHECK(notes_of(text_row.substr(0, text_row.size() - 1) + ", " + member + "}", options) ==
          std::vector<std::string>{"data: these keys of rows are not read: " + name});
  }
  CHECK(notes_of(chat_row, options).empty());
  CHECK(keys_error(R"({"messages": [1], "text": "abc"})", "", options) == "no error");
  CHECK_THAT(keys_error(chat_row, R"("labels": "x")", options), StartsWith("rows.jsonl:3: \"labels\" is not an array"));
  options.classes = 3;
  CHECK(keys_error(R"({"text": "abc", "label": 2})", R"("labels": "x")", options) == "no error");
  CHECK_THAT(keys_error(R"({"text": "abc", "label": 3})", "", options), StartsWith("rows.jsonl:1: \"label\" is 3"));
  CHECK_THAT(keys_error(R"({"text": "abc", "label": "a"})", "", options), StartsWith("rows.jsonl:1: \"label\" is not"));
}

TEST_CASE("a message's keys that a template may render are refused, unless they are null, empty or without effect") {
  const auto error = [](const std::string& field) {
    return keys_error(
        R"({"messages": [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a", )" + field + "}]}", "");
  };
  for (const char* field : {R"("weight": 0)", R"("weight": 0.5)", R"("train": false)", R"("training": 0)",
                            R"("tool_calls": [{"id": 1}])", R"("tool_calls": [[]])", R"("tool_calls": {"a": {}})",
                            R"("weight": [])", R"("thinking": "t")", R"("reasoning_content": "r")", R"("name": "n")",
                            R"("tool_call_id": "1")", R"("function_call": {"name": "f"})", R"("unheard_of": 1)"}) {
    INFO(field);
    const std::string name(field, std::string_view(field).find('"', 1) + 1);
    CHECK_THAT(error(field), StartsWith("rows.jsonl:1: messages[1] has " + name + ", which is not read"));
  }
  for (const char* field :
       {R"("weight": 1)", R"("train": true)", R"("tool_calls": null)", R"("name": null)", R"("id": "x")", R"("tool_calls": [])",
        R"("name": "")", R"("function_call": {})", R"("timestamp": 3)", R"("unheard_of": null)"}) {
    INFO(field);
    CHECK(error(field) == "no error");
  }
}

TEST_CASE("keys that nobody knows are named once, and those that are harmless or null are not") {
  const std::string rows = R"({"text": "abc", "id": 1, "foo": 1, "bar": null})"
                           "\n"
                           R"({"text": "abd", "id": 2, "foo": 1, "b\"z": [1], "bar": null})"
                           "\n";
  const std::vector<std::string> expected = {R"(data: these keys of rows are not read: "b\"z", "foo")"};
  CHECK(notes_of(rows) == expected);
  DatasetOptions packed = keys_options();
  packed.pack = Pack::documents;
  packed.sequence_length = 2;
  CHECK(notes_of(rows, packed) == expected);
  CHECK(notes_of(R"({"input_ids": [1, 2], "foo": 1})") ==
        std::vector<std::string>{R"(data: these keys of rows are not read: "foo")"});
  CHECK(notes_of(R"({"text": "abc", "url": "u", "title": null, "dump": "d"})").empty());
  std::string many = R"({"text": "abc")";
  for (char c = 'a'; c < 'a' + 12; ++c) many += std::string(R"(, "k)") + c + R"(": 1)";
  CHECK_THAT(notes_of(many + "}").front(), Contains("\"kh\", ...") && !Contains("ki"));
}
