#include "data/tokenizers/chat_form.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "core/error.hpp"
#include "data/tokenizers/chat_program.hpp"
#include "data/tokenizers/chat_template.hpp"
#include "data/tokenizers/text/component.hpp"
#include "data/tokenizers/tokenizer_config.hpp"
#include "files/file_io.hpp"
#include "files/json.hpp"
#include "files/text_encoding.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t largest_template = std::size_t{1} << 20;

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

// Reads a text, [{"name": "...", "template": "..."}, ...] or {"name": "template", ...}.
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

ChatForm form_by_special_tokens(const Tokenizer& tokenizer) {
  ChatForm form;
  form.name = tokenizer.find("<|im_start|>") ? "chatml" : tokenizer.find("<|start_header_id|>") ? "llama3" : "";
  return form;
}

bool is_built_in(const std::string& name) {
  const auto& names = chat_template_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

ChatForm choose_chat_form(const Tokenizer& tokenizer, const std::string& name) {
  ChatForm form;
  if (!name.empty() && !is_built_in(name)) {
    form.program = std::make_shared<const ChatProgram>(template_file(name), name, tokenizer.special_tokens());
    return form;
  }
  form.name = name;
  if (name.empty()) form = tokenizer.chat_form();
  if (form.is_empty()) form = form_by_special_tokens(tokenizer);
  if (form.name.empty()) return form;
  for (const std::string& marker : chat_markers(form.name))
    if (const auto id = tokenizer.find(marker); id && !tokenizer.is_found_in_texts(*id))
      throw Error(ErrorKind::input, fmt::format("the tokenizer.model does not find the special token {} of the template {} in "
                                                "texts; give the tokenizer.json of this tokenizer",
                                                marker, form.name));
  return form;
}

void check_special_tokens(const Tokenizer& tokenizer, const ChatProgram& program, const std::string& text) {
  for (const auto& [name, token] : program.special_tokens().items()) {
    if (!token.is_string() || token.as_string().empty()) continue;
    const auto id = tokenizer.find(token.as_string());
    if (!id || tokenizer.is_found_in_texts(*id) || text.find(token.as_string()) == std::string::npos) continue;
    throw Error(ErrorKind::input, fmt::format("the tokenizer.model does not find the special token {} of the template in {} in "
                                              "texts; give the tokenizer.json of this tokenizer",
                                              token.as_string(), program.file()));
  }
}

ChatForm chat_form_of(const TokenizerConfig& config) {
  const FoundTemplates found = find_templates(config);
  if (found.texts.empty()) return {};
  const auto text = found.texts.find("default"), with_tools = found.texts.find("tool_use");
  if (text == found.texts.end())
    found.fail(fmt::format("of its {} chat templates none has the name \"default\"; name one of {} to use it instead",
                           found.texts.size(), fmt::join(chat_template_names(), ", ")));
  auto program = std::make_shared<ChatProgram>(text->second, found.file, config.special_tokens);
  if (with_tools != found.texts.end()) program->set_tool_template(with_tools->second, found.file);
  ChatForm form;
  form.program = std::move(program);
  return form;
}

}  // namespace pipetrain
