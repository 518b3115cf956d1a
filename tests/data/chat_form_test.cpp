// The chat template in a tokenizer's files is recognized by its text, or refused.
#include "data/tokenizers/chat_form.hpp"

#include "catch.hpp"
#include "core/error.hpp"
#include "data/byte_level_file.hpp"
#include "data/input_error.hpp"
#include "data/rows/row_encoder.hpp"
#include "data/tokenize_files.hpp"
#include "data/tokenizers/template_text.hpp"
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

std::string name_for(const std::string& text) { return ChatFolder(config_with(text)).form().name; }
std::string error_for(const Json& value) { return ChatFolder(config_with(value)).error(); }

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

TEST_CASE("the published chat templates are recognized") {
  CHECK(name_for(chatml) == "chatml");
  CHECK(name_for("{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}" + chatml) ==
        "chatml");
  CHECK(name_for(llama3) == "llama3");
  CHECK(name_for(llama2) == "llama2");
  CHECK(name_for(chatml + "\n") == "chatml");
  // With other quotes, white space, comments, and lines that write nothing.
  CHECK(name_for("{%- for message in messages %}\n    {{- \"<|im_start|>\" + message.role + \"\\n\" + message.content + "
                 "\"<|im_end|>\\n\" }}\n{%- endfor %}\n{%- if add_generation_prompt %}\n    {{- '<|im_start|>assistant\\n' }}\n"
                 "{%- endif %}\n") == "chatml");
  CHECK(name_for("{# ours #}\r\n{% for message in messages %}\r\n{% generation %}{{ '<|im_start|>' + message['role'] + '\n' + "
                 "message['content'] + '<|im_end|>' + '\n' }}{% endgeneration %}\r\n  {% endfor %}"
                 "{% if add_generation_prompt %}{{'<|im_start|>assistant\n'}}{% endif %}") == "chatml");
  CHECK(ChatFolder().form().name.empty());
  CHECK(ChatFolder(config_with(Json())).form().name.empty());
}

TEST_CASE("the chat template of a tokenizer is looked for where transformers looks for it") {
  const auto one = [](const char* name, const std::string& text) { return Json::object({{"name", name}, {"template", text}}); };
  CHECK(ChatFolder(config_with(Json::array({one("rag", instruction), one("default", chatml)}))).form().name == "chatml");
  CHECK(ChatFolder(config_with(Json::object({{"tool_use", instruction}, {"default", llama3}}))).form().name == "llama3");
  CHECK_THAT(error_for(Json::array({one("rag", chatml)})), Contains("of its 1 chat templates none has the name \"default\""));
  ChatFolder beside(config_with(instruction));
  beside.folder.write("chat_template.jinja", chatml);
  CHECK(beside.form().name == "chatml");
  beside.folder.write("additional_chat_templates/rag.jinja", instruction);
  CHECK(beside.form().name == "chatml");
  beside.folder.write("chat_template.jinja", instruction);
  CHECK_THAT(beside.error(), StartsWith("chat_template.jinja: its chat template "));
  ChatFolder further;
  further.folder.write("additional_chat_templates/default.jinja", chatml);
  CHECK(further.form().name == "chatml");
  ChatFolder processor;
  processor.folder.write("chat_template.json", Json::object({{"chat_template", chatml}}).dump());
  CHECK(processor.form().name == "chatml");
  processor.folder.write("chat_template.json", R"({"template": 1})");
  CHECK_THAT(processor.error(), StartsWith("chat_template.json: \"chat_template\" is neither a text nor"));
  ChatFolder wide;
  wide.folder.write("chat_template.jinja", std::string("\xFF\xFE{\0", 4));
  CHECK_THAT(wide.error(), StartsWith("chat_template.jinja: is text in UTF-16"));
}

TEST_CASE("other chat templates, and broken ones, are refused") {
  CHECK_THAT(error_for(instruction), StartsWith("tokenizer_config.json: its chat template \"{% for m in messages %}{% if "));
  CHECK_THAT(error_for(instruction),
             Contains("is none of the templates that can be rendered; name one of chatml, llama2, llama3"));
  const auto changed = [](std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
  };
  for (const std::string& text : {std::string(),
                                  std::string(" "),
                                  "x" + chatml,
                                  chatml + " ",
                                  chatml + "{",
                                  chatml + "{% raw %}{% endraw %}",
                                  changed(chatml, "'\\n' + message", "' ' + message"),
                                  changed(chatml, "{% endfor %}", "\n{% endfor %}"),
                                  changed(chatml, "'}}", "'}} "),
                                  changed(chatml, "message['content']", "message['content'] | trim"),
                                  changed(chatml, "message['role']", "message['name']"),
                                  changed(chatml, "{% endif %}", ""),
                                  changed(chatml, "{% endif %}", "{% endif"),
                                  changed(chatml, "'<|im_end|>'", "'<|im_end|>"),
                                  changed(chatml, "{{'<|im", "{{'<\\x7cim"),
                                  changed(chatml, "'}}", "' +}}"),
                                  "{% generation %}" + chatml,
                                  "{% endgeneration %}" + chatml,
                                  "{% generation %}" + chatml + "{% endgeneration %}",
                                  changed(llama3, " | trim", ""),
                                  changed(llama2, ".strip()", "")}) {
    INFO(text);
    CHECK_THAT(error_for(text), Contains("is none of the templates that can be rendered"));
  }
  for (const Json& value : {Json(5), Json(true), Json::array({Json(chatml)}), Json::object({{"default", 5}})})
    CHECK_THAT(error_for(value), Contains("\"chat_template\" is neither a text nor a list"));
  CHECK_THAT(ChatFolder(Json::object({{"chat_template", llama3}})).error(),
             Contains("begins with bos_token, which no file names"));
  CHECK_THAT(ChatFolder(Json::object({{"chat_template", llama2}, {"bos_token", "<b>"}, {"eos_token", "</s>"}})).error(),
             Contains("its chat template is llama2 with the tokens <b> and </s> for <s> and </s>"));
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
  CHECK_THAT(test::input_error(folder, [&] { text_with(config_with(instruction)); }),
             StartsWith("chat-template: tokenizer_config.json: its chat template"));
}

TEST_CASE("a text without messages needs no template that can be rendered") {
  ChatFolder chat(config_with(instruction));
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
