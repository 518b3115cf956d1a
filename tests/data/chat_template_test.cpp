// Chats become the texts that their templates describe.
#include "data/tokenizers/chat_template.hpp"

#include "catch.hpp"
#include "core/error.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;

namespace {

const std::vector<ChatMessage> chat = {
    {"system", "Be brief."}, {"user", " One? "}, {"assistant", "Two."}, {"user", "Three?"}, {"assistant", "Four."}};

std::string all(const std::vector<ChatPart>& parts) {
  std::string text;
  for (const ChatPart& part : parts) text += part.text;
  return text;
}

std::string answers(const std::vector<ChatPart>& parts) {
  std::string text;
  for (const ChatPart& part : parts)
    if (part.is_answer) text += part.text + "|";
  return text;
}

std::string template_error(const char* name, const std::vector<ChatMessage>& messages, bool ask = false) {
  try {
    render_chat(name, messages, ask);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("chat templates write what their makers do") {
  CHECK(all(render_chat("chatml", chat, false)) ==
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n One? <|im_end|>\n<|im_start|>assistant\nTwo.<|im_end|>\n"
        "<|im_start|>user\nThree?<|im_end|>\n<|im_start|>assistant\nFour.<|im_end|>");
  CHECK(answers(render_chat("chatml", chat, false)) == "Two.<|im_end|>|Four.<|im_end|>|");
  CHECK(all(render_chat("llama2", chat, false)) ==
        "[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\n One? [/INST] Two. </s><s>[INST] Three? [/INST] Four. </s>");
  CHECK(answers(render_chat("llama2", chat, false)) == " Two. </s>| Four. </s>|");
  CHECK(all(render_chat("llama3", {{"user", "One?"}}, true)) ==
        "<|start_header_id|>user<|end_header_id|>\n\nOne?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n");
  CHECK(answers(render_chat("llama3", chat, false)) == "Two.<|eot_id|>|Four.<|eot_id|>|");
  CHECK(all(render_chat("chatml", {{"user", "One?"}}, true)) == "<|im_start|>user\nOne?<|im_end|>\n<|im_start|>assistant\n");
}

TEST_CASE("chat templates strip what Python takes for white space, where their makers do") {
  // Rendered by transformers 5.24 with the published templates.
  const std::vector<ChatMessage> spaced = {{"system", " Be brief.\n"},
                                           {"user", " One? "},
                                           {"assistant", " Two.\n"},
                                           {"user", "Three?\xC2\xA0"},
                                           {"assistant",
                                            "\xE3\x80\x80"
                                            "Four."}};
  CHECK(all(render_chat("llama2", spaced, false)) ==
        "[INST] <<SYS>>\n Be brief.\n\n<</SYS>>\n\n One? [/INST] Two. </s><s>[INST] Three? [/INST] Four. </s>");
  CHECK(all(render_chat("llama3", {{"user", "\x1f a\xE2\x80\x8B \n"}, {"assistant", ""}}, false)) ==
        "<|start_header_id|>user<|end_header_id|>\n\na\xE2\x80\x8B<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
        "<|eot_id|>");
  CHECK(all(render_chat("chatml", {{"system", ""}, {"user", "  u"}, {"assistant", "x"}}, false)) ==
        "<|im_start|>system\n<|im_end|>\n<|im_start|>user\n  u<|im_end|>\n<|im_start|>assistant\nx<|im_end|>");
  CHECK(all(render_chat("llama2", {{"system", ""}, {"user", "  u"}, {"assistant", ""}}, false)) ==
        "[INST] <<SYS>>\n\n<</SYS>>\n\n  u [/INST]  </s>");
}

TEST_CASE("chats that no template can write are refused") {
  CHECK_THAT(template_error("vicuna", chat),
             Contains("this chat template is not supported; give one of chatml, llama2, llama3"));
  CHECK_THAT(template_error("chatml", {}), Contains("there are none"));
  CHECK_THAT(template_error("chatml", {{"system", "x"}}), Contains("only that of the system"));
  CHECK_THAT(template_error("chatml", {{"assistant", "x"}}), Contains("number 0 is of the role 'assistant', not 'user'"));
  CHECK_THAT(template_error("llama2", {{"user", "x"}, {"user", "y"}}), Contains("number 1 is of the role 'user'"));
  CHECK_THAT(template_error("llama3", {{"user", "x"}, {"system", "y"}}), Contains("number 1 is of the role 'system'"));
  CHECK_THAT(template_error("llama3", {{"user", "x"}, {"assistant", "y"}}, true), Contains("the last is not of a user"));
}
