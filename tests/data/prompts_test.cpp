#include "data/prompts.hpp"

#include <fmt/format.h>

#include <fstream>

#include "catch.hpp"
#include "core/error.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;

namespace {

PromptFile prompts_in(const TempFolder& folder, const std::string& name, const std::string& text) {
  std::ofstream(folder.path() / name, std::ios::binary) << text;
  return read_prompts(folder.path() / name);
}

std::string refused(const TempFolder& folder, const std::string& name, const std::string& text) {
  try {
    prompts_in(folder, name, text);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    return error.what();
  }
  return "taken";
}

}  // namespace

TEST_CASE("a file of prompts has one a line, or rows of JSON") {
  const TempFolder folder;
  const auto lines = prompts_in(folder, "a.txt", "One\r\n two \n{\"prompt\": 3}").prompts;
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].text == "One");
  CHECK(lines[1].text == " two ");
  CHECK(lines[2].text == "{\"prompt\": 3}");
  CHECK(lines[1].place == (folder.path() / "a.txt").string() + ":2");

  const auto rows =
      prompts_in(folder, "a.jsonl",
                 "{\"prompt\": \"a\\nb\", \"id\": 7}\n"
                 "{\"messages\": [{\"role\": \"system\", \"content\": \"s\", \"name\": \"\", \"id\": 3, \"tool_calls\": "
                 "[]}, {\"role\": \"user\", \"content\": \"u\"}]}\n")
          .prompts;
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].text == "a\nb");
  REQUIRE(rows[1].messages.size() == 2);
  CHECK(rows[1].messages[1].role == "user");
  CHECK(rows[1].messages[1].text == "u");
}

TEST_CASE("keys of prompts that say more of what is to be read are refused, and those that nobody knows are named once") {
  const TempFolder folder;
  for (const char* key : {"system", "tools", "documents", "instruction", "images", "history", "loss_mask"}) {
    const std::string row = fmt::format("{{\"prompt\": \"a\"}}\n{{\"prompt\": \"b\", \"{}\": [\"c\"]}}\n", key);
    CHECK_THAT(refused(folder, "c.jsonl", row), Contains(fmt::format("c.jsonl:2: \"{}\" is not read: ", key)));
  }
  const auto chat =
      prompts_in(folder, "c.jsonl", R"({"messages": [{"role": "user", "content": "u", "tool_calls": [1]}], "tools": [{}]})")
          .prompts;
  CHECK_THAT(chat[0].unrendered, Contains("\"tools\" is not read: it is for chat templates"));
  CHECK(chat[0].chat.variables.at("tools").size() == 1);
  CHECK(chat[0].chat.messages[0].contains("tool_calls"));
  const auto harmless = prompts_in(folder, "c.jsonl", R"({"prompt": "a", "id": 7, "tools": [], "system": null, "weight": 2})");
  CHECK(harmless.prompts.size() == 1);
  CHECK(harmless.note.empty());
  const auto unknown = prompts_in(folder, "c.jsonl",
                                  "{\"prompt\": \"a\", \"mood\": 1}\n{\"prompt\": \"b\", \"mood\": 2, \"response\": \"c\"}\n");
  CHECK(unknown.prompts.size() == 2);
  CHECK(unknown.note == "these keys of rows are not read: \"mood\", \"response\"");
}

TEST_CASE("a fault in a file of prompts is reported with its line") {
  const TempFolder folder;
  const auto check = [&](const std::string& name, const std::string& text, const std::string& wanted) {
    INFO(text);
    const std::string error = refused(folder, name, text);
    INFO(error);
    CHECK(error.find(wanted) != std::string::npos);
  };
  check("b.txt", "", "b.txt: there is no prompt in it");
  check("b.txt", "one\n\nthree\n", "b.txt:2: the line is empty");
  check("b.jsonl", "{\"prompt\": \"a\"}\n{\"prompt\": 5}\n", "b.jsonl:2: \"prompt\" must be there, and be a string");
  check("b.jsonl", "{\"prompt\": \"a\"\n", "b.jsonl:1: ");
  check("b.jsonl", "[1]\n", "b.jsonl:1: must be an object");
  check("b.jsonl", "{\"prompt\": \"\"}\n", "b.jsonl:1: the prompt is empty");
  check("b.jsonl", "{\"text\": \"a\"}\n", "b.jsonl:1: must have either");
  check("b.jsonl", "{\"prompt\": \"a\", \"messages\": []}\n", "b.jsonl:1: must have either");
  check("b.jsonl", "{\"messages\": [1]}\n", "b.jsonl:1: \"messages\" must be an array");
  check("b.jsonl", "{\"messages\": [{\"role\": \"user\"}]}\n",
        "b.jsonl:1: messages[0] has neither \"content\" nor \"tool_calls\"");
  check("b.jsonl", "{\"messages\": []}\n", "b.jsonl:1: the prompt is empty");
  check("b.txt",
        std::string("\xFF\xFE"
                    "a\0",
                    4),
        "b.txt: is text in UTF-16");
  check("no.txt/x", "", "no.txt");
}
