// The chat template in a tokenizer's files, or in a file that is named, renders messages.
#include "data/tokenizers/chat_form.hpp"

#include "catch.hpp"
#include "core/error.hpp"
#include "data/byte_level_file.hpp"
#include "data/input_error.hpp"
#include "data/rows/row_encoder.hpp"
#include "data/tokenize_files.hpp"
#include "data/tokenizers/chat_program.hpp"
#include "files/json_value.hpp"
#include "paths.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

const std::string chatml =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
const std::string llama3 =
    "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + "
    "message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set "
    "content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ "
    "'<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}";
const std::string llama2 =
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = "
    "messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for "
    "message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation "
    "roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if loop.index0 == 0 and system_message != false "
    "%}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = "
    "message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' "
    "}}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}";
const std::string instruction =
    "{% for m in messages %}{% if m['role']=='user' %}{{'### Instruction:\\n'+m['content']+'\\n\\n'}}{% else %}"
    "{{'### Response:\\n'+m['content']+'<|im_end|>'}}{% endif %}{% endfor %}";

// A folder with a tokenizer of bytes that has <|im_start|>, and what its tokenizer_config.json says.
struct ChatFolder {
  TempFolder folder;
  explicit ChatFolder(const Json& config = Json::object()) {
    folder.write("tokenizer.json", test::byte_level_file());
    folder.write("tokenizer_config.json", config.dump());
  }
  ChatForm form() const { return open_tokenizer(folder.path())->chat_form(); }
  std::string error() const {
    return test::input_error(folder, [&] { form(); });
  }
};

Json config_with(Json value) {
  return Json::object({{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"chat_template", std::move(value)}});
}

std::string error_for(const Json& value) { return ChatFolder(config_with(value)).error(); }

const Chat one_question{Json::array({Json::object({{"role", "user"}, {"content", "hi"}})}), Json::object()};
std::string text_of(const ChatForm& form, const Chat& chat = one_question) {
  return form.program ? form.program->render(chat, false) : "no template";
}

Row row_of(const std::vector<Row::Message>& messages) {
  Row row;
  row.form = RowForm::messages;
  row.messages = messages;
  return row;
}

// The text of a row's ids, with those that count between « and ».
std::string learned(const Tokenizer& tokenizer, const std::vector<Row::Message>& messages, const std::string& name = "") {
  TextReading reading{.tokenizer = &tokenizer};
  reading.chat_template = name;
  TokenizedDocuments documents;
  RowEncoder(reading).add(row_of(messages), documents);
  std::string text;
  for (std::size_t i = 0; i < documents.ids.size(); ++i) {
    if (documents.counted[i] && (i == 0 || !documents.counted[i - 1])) text += "\xC2\xAB";
    text += tokenizer.decode(std::span(documents.ids).subspan(i, 1), SpecialTokens::keep);
    if (documents.counted[i] && (i + 1 == documents.ids.size() || !documents.counted[i + 1])) text += "\xC2\xBB";
  }
  return text;
}

}  // namespace

TEST_CASE("the chat template of a tokenizer is looked for where transformers looks for it") {
  const auto one = [](const char* name, const std::string& text) { return Json::object({{"name", name}, {"template", text}}); };
  CHECK(text_of(ChatFolder().form()) == "no template");
  CHECK(text_of(ChatFolder(config_with(Json())).form()) == "no template");
  CHECK(text_of(ChatFolder(config_with("a{{ bos_token }}{{ pad_token }}")).form()) == "a<s>");
  CHECK(text_of(ChatFolder(config_with(Json::array({one("rag", "r"), one("default", "d")}))).form()) == "d");
  CHECK(text_of(ChatFolder(config_with(Json::object({{"tool_use", "t"}, {"default", "d"}}))).form()) == "d");
  Chat with_tools = one_question;
  with_tools.variables["tools"] = Json::array({1});
  CHECK(text_of(ChatFolder(config_with(Json::object({{"tool_use", "t"}, {"default", "d"}}))).form(), with_tools) == "t");
  CHECK_THAT(error_for(Json::array({one("rag", chatml)})), Contains("of its 1 chat templates none has the name \"default\""));
  ChatFolder beside(config_with(instruction));
  beside.folder.write("chat_template.jinja", "beside");
  CHECK(text_of(beside.form()) == "beside");
  beside.folder.write("additional_chat_templates/rag.jinja", instruction);
  CHECK(text_of(beside.form()) == "beside");
  beside.folder.write("chat_template.jinja", "\n{% for %}");
  CHECK_THAT(beside.error(), StartsWith("chat_template.jinja:2: a name is expected"));
  ChatFolder further;
  further.folder.write("additional_chat_templates/default.jinja", "further");
  CHECK(text_of(further.form()) == "further");
  ChatFolder processor;
  processor.folder.write("chat_template.json", Json::object({{"chat_template", "processor"}}).dump());
  CHECK(text_of(processor.form()) == "processor");
  processor.folder.write("chat_template.json", R"({"template": 1})");
  CHECK_THAT(processor.error(), StartsWith("chat_template.json: \"chat_template\" is neither a text nor"));
  ChatFolder wide;
  wide.folder.write("chat_template.jinja", std::string("\xFF\xFE{\0", 4));
  CHECK_THAT(wide.error(), StartsWith("chat_template.jinja: is text in UTF-16"));
}

TEST_CASE("chat templates that are no texts are refused") {
  for (const Json& value : {Json(5), Json(true), Json::array({Json(chatml)}), Json::object({{"default", 5}})})
    CHECK_THAT(error_for(value), Contains("\"chat_template\" is neither a text nor a list"));
}

TEST_CASE("messages become the ids of the template in the tokenizer's files") {
  const std::vector<Row::Message> messages = {{"user", "hi"}, {"assistant", "yes"}, {"user", "on"}, {"assistant", "no"}};
  // A tokenizer that puts <s> in front of a text, which the template of transformers does only where it says so.
  const std::string post = R"("post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", )"
                           R"("type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "special_tokens": )"
                           R"({"<s>": {"id": "<s>", "ids": [256]}}}, )";
  const TempFolder folder;
  folder.write("tokenizer.json",
               test::byte_level_file(post, test::special_token(256, "<s>") + ", " + test::special_token(257, "</s>") + ", " +
                                               test::special_token(258, "<|im_end|>")));
  const auto text_with = [&](const Json& config, const std::string& name = "") {
    folder.write("tokenizer_config.json", config.dump());
    return learned(*open_tokenizer(folder.path()), messages, name);
  };
  const std::string as_chatml =
      "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n\xC2\xAByes<|im_end|>\xC2\xBB\n<|im_start|>user\non<|im_end|>\n"
      "<|im_start|>assistant\n\xC2\xABno<|im_end|>\xC2\xBB";
  CHECK(text_with(config_with(chatml)) == as_chatml);
  CHECK(text_with(config_with(instruction), "chatml") == "<s>" + as_chatml);
  CHECK(text_with(config_with(llama2)) ==
        "<s>[INST] hi [/INST]\xC2\xAB yes </s>\xC2\xBB<s>[INST] on [/INST]\xC2\xAB no </s>\xC2\xBB");
  CHECK(text_with(config_with(llama3)) ==
        "<s><|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
        "\xC2\xAByes<|eot_id|>\xC2\xBB<|start_header_id|>user<|end_header_id|>\n\non<|eot_id|><|start_header_id|>assistant"
        "<|end_header_id|>\n\n\xC2\xABno<|eot_id|>\xC2\xBB");
  CHECK(text_with(config_with(instruction)) ==
        "### Instruction:\nhi\n\n\xC2\xAB### Response:\nyes<|im_end|>\xC2\xBB### Instruction:\non\n\n\xC2\xAB### "
        "Response:\nno<|im_end|>"
        "\xC2\xBB");
  const std::string file = folder.write("own.jinja", instruction).string();
  CHECK(text_with(config_with(chatml), file) == text_with(config_with(instruction)));
  CHECK_THAT(test::input_error(folder, [&] { text_with(config_with("{% if %}")); }),
             StartsWith("chat-template: tokenizer_config.json:1: an expression is expected"));
}

TEST_CASE("a text without messages needs no template that can be rendered") {
  ChatFolder chat(config_with("{% if %}"));
  const auto tokenizer = open_tokenizer(chat.folder.path());
  CHECK(tokenize_text("hi", *tokenizer).ids.size() == 3);
  CHECK_THROWS_AS(learned(*tokenizer, {{"user", "hi"}, {"assistant", "yes"}}), Error);
}

TEST_CASE("the second question of a chat is not encoded as the beginning of a text") {
  // transformers 5.24 gives these ids for the whole text: a space stands in front of the first word of a text alone.
  const TempFolder folder;
  folder.write("t.json",
               R"({"added_tokens": [)" + test::special_token(0, "<|im_start|>") + ", " + test::special_token(1, "<|im_end|>") +
                   R"(], "pre_tokenizer": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first"},)"
                   R"("model": {"type": "BPE", "vocab": {"<|im_start|>": 0, "<|im_end|>": 1, "_": 2, "a": 3, "\n": 4,)"
                   R"("u": 5, "s": 6, "e": 7, "r": 8, "i": 9, "t": 10, "n": 11}, "merges": []}})");
  const auto tokenizer = open_tokenizer(folder.path() / "t.json");
  TokenizedDocuments documents;
  RowEncoder(TextReading{.tokenizer = tokenizer.get()})
      .add(row_of({{"user", "a"}, {"assistant", "a"}, {"user", "a"}, {"assistant", "a"}}), documents);
  const std::string whole = "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\na<|im_end|>";
  CHECK(documents.ids == tokenizer->encode(whole + "\n" + whole));
}

TEST_CASE("a tokenizer.model that does not find a template's special tokens is refused for messages") {
  const auto tokenizer = open_tokenizer(std::filesystem::path(test_data()) / "data/tokenizers/fixtures/sentencepiece.model");
  CHECK_THROWS_WITH(learned(*tokenizer, {{"user", "hi"}, {"assistant", "yes"}}, "llama2"),
                    Contains("the tokenizer.model does not find the special token <s> of the template llama2 in texts"));
}
