#include "data/tokenizers/chat_form.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/error.hpp"
#include "data/tokenizers/chat_template.hpp"
#include "data/tokenizers/template_text.hpp"
#include "data/tokenizers/text/component.hpp"
#include "data/tokenizers/tokenizer_config.hpp"
#include "files/file_io.hpp"
#include "files/json.hpp"
#include "files/json_builder.hpp"
#include "files/text_encoding.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t largest_template = std::size_t{1} << 20;

// The texts of published templates that render_chat() reproduces for all messages that it takes.
struct KnownTemplate {
  const char* name;
  bool begins;  // with bos_token, which render_chat() leaves to the tokenizer
  bool ends;    // turns with eos_token, for which render_chat() has </s>
  const char* text;
};

constexpr KnownTemplate known_templates[] = {
    {"chatml", false, false,
     R"({% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}})"
     R"({% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %})"},
    {"chatml", false, false,
     R"({% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %})"
     R"({% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}})"
     R"({% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %})"},
    {"llama3", true, false,
     R"({% set loop_messages = messages %}{% for message in loop_messages %})"
     R"({% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + )"
     R"('<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %})"
     R"({% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %})"},
    {"llama3", true, false,
     R"({% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %})"
     R"({% set loop_messages = messages %}{% for message in loop_messages %})"
     R"({% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + )"
     R"('<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %})"
     R"({% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %})"},
    {"llama2", true, true,
     R"({% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %})"
     R"({% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %})"
     R"({% set system_message = false %}{% endif %}{% for message in loop_messages %})"
     R"({% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %})"
     R"({{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %})"
     R"({% if loop.index0 == 0 and system_message != false %})"
     R"({% set content = '<<SYS>>\n' + system_message + '\n<</SYS>>\n\n' + message['content'] %})"
     R"({% else %}{% set content = message['content'] %}{% endif %})"
     R"({% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }})"
     R"({% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %})"},
};

const std::map<std::string, const KnownTemplate*>& known_by_normal_form() {
  static const std::map<std::string, const KnownTemplate*> known = [] {
    std::map<std::string, const KnownTemplate*> forms;
    for (const KnownTemplate& one : known_templates) forms.emplace(normal_template(one.text).value(), &one);
    return forms;
  }();
  return known;
}

struct FoundTemplates {
  std::string file;
  std::map<std::string, std::string> texts;  // by their names

  [[noreturn]] void fail(const std::string& what) const { throw Error(ErrorKind::input, fmt::format("{}: {}", file, what)); }
};

std::string template_file(const fs::path& file) {
  const std::string text = read_text(file, largest_template);
  refuse_utf16(text, file.string());
  return text;
}

// A text; [{"name": "...", "template": "..."}, ...]; or {"name": "template", ...}.
FoundTemplates templates_of_value(const Json& value, const std::string& file) {
  FoundTemplates found{file, {}};
  const auto text_of = [&](const Json* text) {
    if (!text || !text->is_string())
      found.fail(fmt::format("\"chat_template\" is neither a text nor a list of objects with \"name\" and \"template\"; {}",
                             tokenizer_file_remedy));
    return text->as_string();
  };
  if (value.is_array()) {
    for (const Json& one : value) found.texts[text_of(one.find("name"))] = text_of(one.find("template"));
  } else if (value.is_object()) {
    for (const auto& [name, text] : value.items()) found.texts[name] = text_of(&text);
  } else {
    found.texts["default"] = text_of(&value);
  }
  return found;
}

FoundTemplates find_templates(const TokenizerConfig& config) {
  std::error_code ignored;
  const fs::path file = config.folder / "chat_template.jinja", further = config.folder / "additional_chat_templates";
  FoundTemplates found{file.string(), {}};
  if (fs::exists(file, ignored)) found.texts["default"] = template_file(file);
  if (fs::is_directory(further, ignored))
    for (const auto& entry : fs::directory_iterator(further, ignored))
      if (entry.path().extension() == ".jinja") found.texts[entry.path().stem().string()] = template_file(entry.path());
  if (!found.texts.empty()) return found;
  if (const Json* const value = config.settings.find("chat_template"); value && !value->is_null())
    return templates_of_value(*value, config.file());
  const fs::path processor = config.folder / "chat_template.json";
  if (!fs::exists(processor, ignored)) return found;
  const Json all = parse_json(template_file(processor), {processor.string()});
  const Json* const value = all.find("chat_template");
  return templates_of_value(value ? *value : Json(), processor.string());
}

std::string shown_template(const std::string& text) { return shown_json_key(text.substr(0, 60)); }

ChatForm form_by_special_tokens(const Tokenizer& tokenizer) {
  return {tokenizer.find("<|im_start|>") ? "chatml" : tokenizer.find("<|start_header_id|>") ? "llama3" : "", {}};
}

}  // namespace

ChatForm choose_chat_form(const Tokenizer& tokenizer, const std::string& name) {
  ChatForm form{name, {}};
  if (name.empty()) form = tokenizer.chat_form();
  if (form.name.empty()) form = form_by_special_tokens(tokenizer);
  if (form.name.empty()) return form;
  for (const std::string& marker : chat_markers(form.name))
    if (const auto id = tokenizer.find(marker); id && !tokenizer.is_found_in_texts(*id))
      throw Error(ErrorKind::input, fmt::format("the tokenizer.model does not find the special token {} of the template {} in "
                                                "texts; give the tokenizer.json of this tokenizer",
                                                marker, form.name));
  return form;
}

ChatForm chat_form_of(const TokenizerConfig& config) {
  const FoundTemplates found = find_templates(config);
  if (found.texts.empty()) return {};
  const std::string remedy = fmt::format("name one of {} to use it instead", fmt::join(chat_template_names(), ", "));
  const auto text = found.texts.find("default");
  if (text == found.texts.end())
    found.fail(fmt::format("of its {} chat templates none has the name \"default\"; {}", found.texts.size(), remedy));
  const auto normal = normal_template(text->second);
  const auto& known = known_by_normal_form();
  const auto one = normal ? known.find(*normal) : known.end();
  if (one == known.end())
    found.fail(fmt::format("its chat template {} is none of the templates that can be rendered; {}",
                           shown_template(text->second), remedy));
  const auto& [name, begins, ends, published] = *one->second;
  if (begins && config.begin_name.empty())
    found.fail(fmt::format("its chat template begins with bos_token, which no file names; name it, or {}", remedy));
  if (ends && (config.begin_name != "<s>" || config.end_name != "</s>"))
    found.fail(fmt::format("its chat template is {} with the tokens {} and {} for <s> and </s>, which cannot be rendered; {}",
                           name, config.begin_name, config.end_name, remedy));
  return {name, begins ? config.begin_name : ""};
}

}  // namespace pipetrain
