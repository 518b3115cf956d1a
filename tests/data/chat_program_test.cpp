// A chat template that is interpreted makes messages a text, in which the answers are found.
#include "data/tokenizers/chat_program.hpp"

#include "catch.hpp"
#include "core/error.hpp"
#include "data/templates/fixture.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;

namespace {

Json message(const char* role, const Json& content) { return Json::object({{"role", role}, {"content", content}}); }

ChatProgram program_of(const std::string& text) {
  return {text, "t.jinja", Json::object({{"bos_token", "<s>"}, {"eos_token", "</s>"}})};
}
ChatProgram fixture_program(const std::string& name) { return program_of(test::fixture_template(name)); }

// The text of the chat, with answers between « and ».
std::string marked(const ChatProgram& program, const Chat& chat) {
  const RenderedChat rendered = program.render_answers(chat);
  std::string text;
  std::size_t done = 0;
  for (const auto& [begin, end] : rendered.answers) {
    text += rendered.text.substr(done, begin - done) + "\xC2\xAB" + rendered.text.substr(begin, end - begin) + "\xC2\xBB";
    done = end;
  }
  return text + rendered.text.substr(done);
}

Chat two_turns() {
  return {Json::array({message("user", "u1"), message("assistant", "a1"), message("user", "u2"), message("assistant", "a2")}),
          Json::object()};
}

Chat with_call() {
  Json call = message("assistant", "");
  call["tool_calls"] = Json::array({Json::object(
      {{"type", "function"}, {"function", Json::object({{"name", "f"}, {"arguments", Json::object({{"x", 1}})}})}})});
  Chat chat{Json::array({message("user", "u1"), call, message("tool", "r1"), message("assistant", "a1"), message("user", "u2"),
                         message("assistant", "a2")}),
            Json::object()};
  chat.variables["tools"] = Json::array({Json::object({{"type", "function"}, {"function", Json::object({{"name", "f"}})}})});
  return chat;
}

}  // namespace

TEST_CASE("answers are found in the text of a chat with what ends them") {
  CHECK(marked(fixture_program("chatml"), two_turns()) ==
        "<|im_start|>user\nu1<|im_end|>\n<|im_start|>assistant\n\xC2\xAB"
        "a1<|im_end|>\xC2\xBB\n<|im_start|>user\nu2<|im_end|>\n<|im_start|>assistant\n\xC2\xAB"
        "a2<|im_end|>\xC2\xBB\n");
  CHECK(marked(fixture_program("inst"), two_turns()) ==
        "<s>[INST] u1 [/INST]\xC2\xAB a1 </s>\xC2\xBB<s>[INST] u2 [/INST]\xC2\xAB a2 </s>\xC2\xBB");
  CHECK(marked(fixture_program("turns"), two_turns()) ==
        "<s><start_of_turn>user\nu1<end_of_turn>\n<start_of_turn>model\n\xC2\xAB"
        "a1<end_of_turn>\xC2\xBB\n<start_of_turn>user\nu2<end_of_turn>\n"
        "<start_of_turn>model\n\xC2\xAB"
        "a2<end_of_turn>\xC2\xBB\n");
}

TEST_CASE("answers are found where the last one ends in another way") {
  CHECK(marked(fixture_program("pipes"), two_turns()) ==
        "<|user|>u1<|end|><|assistant|>\xC2\xAB"
        "a1<|end|>\xC2\xBB<|user|>u2<|end|><|assistant|>\xC2\xAB"
        "a2<|end|></s>\xC2\xBB");
  CHECK_THAT(marked(fixture_program("olmo_like"), two_turns()), Contains("\xC2\xAB"
                                                                         "a1<|im_end|>\xC2\xBB\n") &&
                                                                    Contains("\xC2\xAB"
                                                                             "a2</s>\xC2\xBB"));
}

TEST_CASE("calls of tools are answers") {
  CHECK_THAT(marked(fixture_program("chatml_tools"), with_call()),
             Contains("<|im_start|>assistant\xC2\xAB\n<call>\n{\"name\": \"f\", \"arguments\": {\"x\": "
                      "1}}\n</call><|im_end|>\xC2\xBB\n<|im_start|>user\n<result>") ||
                 Contains("<|im_start|>assistant\n\xC2\xAB<call>\n{\"name\": \"f\", \"arguments\": {\"x\": "
                          "1}}\n</call><|im_end|>\xC2\xBB\n<|im_start|>user\n<result>"));
}

TEST_CASE("answers are found in the text of a template that rewrites earlier ones") {
  Chat chat = two_turns();
  chat.messages[1]["content"] = "<think>\nt1\n</think>\n\na1";
  chat.messages[3]["content"] = "<think>\nt2\n</think>\n\na2";
  CHECK(marked(fixture_program("thinking_rewritten"), chat) ==
        "<|im_start|>user\nu1<|im_end|>\n<|im_start|>assistant\n\xC2\xAB"
        "a1<|im_end|>\xC2\xBB\n<|im_start|>user\nu2<|im_end|>\n<|im_start|>assistant\n"
        "\xC2\xAB<think>\nt2\n</think>\n\na2<|im_end|>\xC2\xBB\n");
  CHECK(marked(fixture_program("trimmed_history"), chat) ==
        "<s><User>u1<Assistant>\xC2\xAB\n\na1</s>\xC2\xBB<User>u2<Assistant><think>\xC2\xAB\nt2\n</think>\n\na2</s>\xC2\xBB");
}

TEST_CASE("a template that asks with more than it keeps leaves the answer whole") {
  CHECK(marked(fixture_program("trimmed_history"), two_turns()) ==
        "<s><User>u1<Assistant>\xC2\xAB"
        "a1</s>\xC2\xBB<User>u2<Assistant>\xC2\xAB"
        "a2</s>\xC2\xBB");
}

TEST_CASE("a template marks its answers itself") {
  CHECK(marked(fixture_program("separators"), two_turns()) ==
        "<|im_start|>user<|im_sep|>u1<|im_end|><|im_start|>assistant<|im_sep|>\xC2\xAB"
        "a1<|im_end|>\xC2\xBB<|im_start|>user<|im_sep|>u2<|im_end|>"
        "<|im_start|>assistant<|im_sep|>\xC2\xAB"
        "a2<|im_end|>\xC2\xBB");
}

TEST_CASE("a chat is refused where an answer is not found in its text") {
  const ChatProgram backwards = program_of("{% for m in messages|reverse %}{{ m.content|upper }}{% endfor %}");
  CHECK_THROWS_WITH(backwards.render_answers(two_turns()),
                    Contains("t.jinja: the chat template rewrites messages, so that the answer messages[1] is not found"));
}

TEST_CASE("what a template does not render is named") {
  Chat chat = with_call();
  CHECK(fixture_program("chatml").ignored(chat) == "\"tools\"");
  chat.variables = Json::object();
  CHECK(fixture_program("chatml").ignored(chat) == "\"tool_calls\" of messages[1]");
  CHECK(program_of("{{ messages|tojson }}").ignored(chat).empty());
  CHECK(fixture_program("chatml_tools").ignored(with_call()).empty());
}

TEST_CASE("a message that is null in a part is rendered without it, and its reasoning under every name") {
  Json answer = message("assistant", Json());
  answer["reasoning"] = "r";
  CHECK(program_of("{{ messages[0] }}").render({Json::array({answer}), Json::object()}, false) ==
        "{'thinking': 'r', 'role': 'assistant', 'reasoning': 'r', 'reasoning_content': 'r'}");
}

TEST_CASE("what ends an answer is known from the template") {
  CHECK(fixture_program("chatml").answer_end() == "<|im_end|>");
  CHECK(fixture_program("headers").answer_end() == "<|eot_id|>");
  CHECK(fixture_program("turns").answer_end() == "<end_of_turn>");
}
