// Rows of chats with a template that is interpreted: tools, systems, sharegpt's conversations.

#include "catch.hpp"
#include "core/error.hpp"
#include "data/byte_level_file.hpp"
#include "data/input_error.hpp"
#include "data/open_dataset.hpp"
#include "data/rows/jsonl_row.hpp"
#include "data/templates/fixture.hpp"
#include "data/tokenizers/tokenizer.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

// A tokenizer of bytes with a chat template, and rows.
class ChatData {
 public:
  explicit ChatData(const std::string& chat_template) {
    folder_.write("tokenizer.json", test::byte_level_file());
    folder_.write("tokenizer_config.json",
                  Json::object({{"chat_template", chat_template}, {"eos_token", "<|im_end|>"}}).dump());
    tokenizer_ = open_tokenizer(folder_.path());
  }

  // The text of the row's sample, with what counts between « and ».
  std::string learned(const std::string& row) const {
    const auto data = open(row);
    Sample sample;
    data->read(0, sample);
    std::string text = tokenizer_->decode(std::span(sample.ids).first(1), SpecialTokens::keep);
    bool counts = false;
    std::vector<std::int32_t> ids(sample.ids.begin() + 1, sample.ids.end());
    ids.push_back(sample.labels.back());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if ((sample.labels[i] >= 0) != counts) text += counts ? "\xC2\xBB" : "\xC2\xAB";
      counts = sample.labels[i] >= 0;
      text += tokenizer_->decode(std::span(ids).subspan(i, 1), SpecialTokens::keep);
    }
    return text + (counts ? "\xC2\xBB" : "");
  }
  std::string error(const std::string& row) const {
    return test::input_error(folder_, [&] { open(row); });
  }

 private:
  std::unique_ptr<Dataset> open(const std::string& row) const {
    DatasetOptions options;
    options.inputs = {{folder_.write("rows.jsonl", row), std::nullopt}};
    options.vocabulary = 300;
    options.threads = 1;
    options.tokenizer = folder_.path();
    return open_dataset(options);
  }

  TempFolder folder_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

const std::string turns = R"([{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}])";
const std::string as_chatml =
    "<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\n\xC2\xAB"
    "a<|im_end|>\xC2\xBB";

}  // namespace

TEST_CASE("a row of messages is learned in the template of the tokenizer's files") {
  const ChatData data(test::fixture_template("chatml"));
  CHECK(data.learned(R"({"messages": )" + turns + "}") == as_chatml);
  CHECK(data.learned(R"({"conversations": [{"from": "human", "value": "u"}, {"from": "gpt", "value": "a"}]})") == as_chatml);
  CHECK(data.learned(R"({"conversations": )" + turns + "}") == as_chatml);
  CHECK(data.learned(R"({"system": "s", "messages": )" + turns + "}") == "<|im_start|>system\ns<|im_end|>\n" + as_chatml);
  CHECK(data.learned(R"({"messages": [{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}]})") ==
        "<|im_start|>assistant\n\xC2\xAB"
        "a<|im_end|>\xC2\xBB\n<|im_start|>assistant\n\xC2\xAB"
        "b<|im_end|>\xC2\xBB");
}

TEST_CASE("tools of a row are rendered by a template that names them") {
  const ChatData data(test::fixture_template("chatml_tools"));
  const std::string expected =
      "<|im_start|>system\n# Functions\n\nSignatures lie in the tags <functions></functions>:\n<functions>\n{\"name\": \"f\"}\n"
      "</functions>\n\nAnswer a call as {\"name\": <name>, \"arguments\": <object>}.<|im_end|>\n";
  const std::string call =
      R"([{"role": "user", "content": "u"}, {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1.0}}}]},)"
      R"({"role": "tool", "content": "r", "tool_call_id": "c1"}, {"role": "assistant", "content": "a"}])";
  const std::string as_calls =
      "<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\n\xC2\xAB<call>\n{\"name\": \"f\", \"arguments\": {\"x\": "
      "1.0}}\n</call>"
      "<|im_end|>\xC2\xBB\n<|im_start|>user\n<result>\nr\n</result><|im_end|>\n<|im_start|>assistant\n\xC2\xAB"
      "a<|im_end|>\xC2\xBB";
  CHECK(data.learned(R"({"tools": [{"name": "f"}], "messages": )" + call + "}") == expected + as_calls);
  CHECK(data.learned(R"({"tools": "[{\"name\": \"f\"}]", "messages": )" + call + "}") == expected + as_calls);
  CHECK(
      data.learned(
          R"({"conversations": [{"from": "human", "value": "u"}, {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"x\": 1.0}}"},)"
          R"({"from": "observation", "value": "r"}, {"from": "gpt", "value": "a"}]})") == as_calls);
}

TEST_CASE("what the template does not render, or refuses, is refused with the row") {
  const ChatData data(test::fixture_template("chatml"));
  const auto error_of = [&](const std::string& members, const std::string& messages = turns) {
    return data.error("{" + members + R"("messages": )" + messages + "}");
  };
  CHECK_THAT(error_of(R"("tools": [{}], )"),
             StartsWith("rows.jsonl:1: \"tools\" is not read: the chat template of tokenizer_config.json does not render it"));
  CHECK_THAT(error_of(R"("documents": [{}], )"), StartsWith("rows.jsonl:1: \"documents\" is not read"));
  CHECK_THAT(error_of(R"("chat_template_kwargs": {"enable_thinking": true}, )"),
             StartsWith("rows.jsonl:1: \"enable_thinking\" is not read"));
  CHECK_THAT(error_of(R"("tools": "no", )"), StartsWith("rows.jsonl:1: \"tools\" is a string that is no JSON"));
  CHECK_THAT(error_of(R"("images": ["a.png"], )"), StartsWith("rows.jsonl:1: \"images\" is not read"));
  CHECK_THAT(error_of("", R"([{"role": "user", "content": "u"}])"), Contains("none has the role assistant"));
  CHECK_THAT(error_of("", R"([{"role": "user"}, {"role": "assistant", "content": "a"}])"),
             StartsWith("rows.jsonl:1: messages[0] has neither \"content\" nor"));
  CHECK_THAT(error_of("", R"([{"role": "user", "content": "u", "mood": "m"}, {"role": "assistant", "content": "a"}])"),
             StartsWith("rows.jsonl:1: \"mood\" of messages[0] is not read"));
  CHECK_THAT(
      error_of("", R"([{"role": "user", "content": [{"text": "u"}]}, {"role": "assistant", "content": "a"}])"),
      StartsWith("rows.jsonl:1: tokenizer_config.json:1: the chat template cannot render this: can only concatenate str"));
  CHECK_THAT(error_of(R"("conversations": [], )"),
             StartsWith("rows.jsonl:1: this row has both \"messages\" and \"conversations\""));
  const ChatData refusing("{% if messages|length > 1 %}{{ raise_exception('too long') }}{% endif %}");
  CHECK_THAT(refusing.error(R"({"messages": )" + turns + "}"),
             StartsWith("rows.jsonl:1: tokenizer_config.json:1: the chat template refuses this: too long"));
}

TEST_CASE("long rows of messages are rendered as short ones are") {
  const ChatData data(test::fixture_template("chatml"));
  const std::string filler = R"(, "url": ")" + std::string(longest_parsed_row, 'x') + "\"}";
  CHECK(data.learned(R"({"messages": )" + turns + filler) == as_chatml);
  CHECK_THAT(data.error(R"({"tools": [{}], "messages": )" + turns + filler), StartsWith("rows.jsonl:1: \"tools\" is not read"));
}
