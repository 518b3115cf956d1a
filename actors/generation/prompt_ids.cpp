#include "actors/generation/prompt_ids.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "data/templates/render_error.hpp"
#include "data/tokenizers/chat_form.hpp"
#include "data/tokenizers/chat_program.hpp"
#include "model/families/generation_config.hpp"

namespace pipetrain {
namespace {

[[noreturn]] void fail(const Prompt& prompt, const std::string& why) {
  throw prompt.place.empty() ? Error(ErrorKind::input, Setting{"prompt", ""}, why)
                             : Error(ErrorKind::input, fmt::format("{}: {}", prompt.place, why));
}

// Returns the first prompt that is a chat; null where there is none.
const Prompt* first_chat(const std::vector<Prompt>& prompts, const PromptForm& form) {
  const auto chat = std::find_if(prompts.begin(), prompts.end(),
                                 [&](const Prompt& prompt) { return form.chat_template || !prompt.messages.empty(); });
  return chat == prompts.end() ? nullptr : &*chat;
}

// Returns the form in which chats become texts; no value where no prompt is a chat.
std::optional<ChatForm> find_chat_form(const std::vector<Prompt>& prompts, const PromptForm& form) {
  const Prompt* const chat = first_chat(prompts, form);
  if (chat == nullptr) return std::nullopt;
  const Setting named{"chat", form.chat_template.value_or("")};
  const std::string what = chat->place.empty() ? "a chat" : fmt::format("the \"messages\" of {}", chat->place);
  if (form.tokenizer == nullptr)
    throw Error(ErrorKind::input, Setting{"tokenizer", ""},
                fmt::format("is needed for {}, and there is none in the model's folder; name one", what));
  ChatForm found;
  try {
    found = choose_chat_form(*form.tokenizer, named.value);
  } catch (const Error& error) {
    throw Error(ErrorKind::input, named, error.what());
  }
  if (found.is_empty())
    throw Error(ErrorKind::input, named,
                fmt::format("is needed for {}: the tokenizer does not define how messages become a text; give one of {}", what,
                            fmt::join(chat_template_names(), ", ")));
  return found;
}

std::string built_in_text(const Prompt& prompt, const PromptForm& form, const std::string& name) {
  if (!prompt.unrendered.empty()) fail(prompt, prompt.unrendered);
  std::vector<ChatMessage> messages = prompt.messages;
  if (messages.empty()) messages.push_back({"user", prompt.text});
  if (!form.system.empty() && messages.front().role != "system") messages.insert(messages.begin(), {"system", form.system});
  std::string text;
  try {
    for (const ChatPart& part : render_chat(name, messages, true)) text += part.text;
  } catch (const Error& error) {
    if (error.setting() != nullptr || prompt.place.empty()) throw;
    fail(prompt, error.what());
  }
  return text;
}

std::string rendered_text(const Prompt& prompt, const PromptForm& form, const ChatProgram& program) {
  Chat chat{Json::array(), prompt.chat.variables};
  const Json* const first = prompt.chat.messages.empty() ? nullptr : prompt.chat.messages.begin();
  if (!form.system.empty() && (first == nullptr || first->at("role") != "system"))
    chat.messages.push_back(Json::object({{"role", "system"}, {"content", form.system}}));
  for (const Json& message : prompt.chat.messages) chat.messages.push_back(message);
  if (first == nullptr) chat.messages.push_back(Json::object({{"role", "user"}, {"content", prompt.text}}));
  try {
    if (const std::string ignored = program.ignored(chat); !ignored.empty())
      fail(prompt,
           fmt::format("{} is not read: the chat template of {} does not render it; leave it out", ignored, program.file()));
    std::string text = program.render(chat, true);
    check_special_tokens(*form.tokenizer, program, text);
    return text;
  } catch (const templates::RenderError& error) {
    fail(prompt, error.what());
  }
}

std::vector<std::int32_t> ids_of(const Prompt& prompt, const PromptForm& form, const std::optional<ChatForm>& chat) {
  if (chat && (form.chat_template || !prompt.messages.empty())) {
    if (chat->program) return form.tokenizer->encode(rendered_text(prompt, form, *chat->program), SpecialTokens::leave_out);
    return form.tokenizer->encode(built_in_text(prompt, form, chat->name));
  }
  if (form.tokenizer != nullptr) return form.tokenizer->encode(prompt.text);
  std::vector<std::int32_t> bytes;
  for (const char byte : prompt.text) bytes.push_back(static_cast<unsigned char>(byte));
  return bytes;
}

void check(const Prompt& prompt, const std::vector<std::int32_t>& ids, const ModelConfig& config) {
  if (ids.empty()) fail(prompt, "the prompt has no tokens; give it text");
  if (std::ssize(ids) >= config.max_positions)
    fail(prompt, fmt::format("the prompt has {} tokens and leaves no position of the model's {} for a new one; shorten it",
                             ids.size(), config.max_positions));
  const std::int32_t most = *std::max_element(ids.begin(), ids.end());
  if (most >= config.vocabulary)
    fail(prompt, fmt::format("the tokenizer gives the id {}, but the model has {}; give the model's tokenizer", most,
                             config.vocabulary));
}

}  // namespace

std::vector<std::vector<std::int32_t>> prompt_ids(const std::vector<Prompt>& prompts, const PromptForm& form,
                                                  const ModelConfig& config) {
  const std::optional<ChatForm> chat = find_chat_form(prompts, form);
  std::vector<std::vector<std::int32_t>> all;
  for (const Prompt& prompt : prompts) {
    all.push_back(ids_of(prompt, form, chat));
    check(prompt, all.back(), config);
  }
  return all;
}

std::vector<std::int32_t> end_ids(const std::string& model_folder, const std::vector<Prompt>& prompts, const PromptForm& form,
                                  const ModelConfig& config) {
  std::vector<std::int32_t> ids = read_end_ids(model_folder, config.vocabulary);
  if (ids.empty()) ids.assign(config.eos_ids.begin(), config.eos_ids.end());
  if (form.tokenizer == nullptr) return ids;
  if (ids.empty()) {
    if (const auto end = form.tokenizer->end_of_text()) ids.push_back(*end);
  }
  if (const auto chat = find_chat_form(prompts, form)) {
    const std::string marker = chat->program ? chat->program->answer_end() : chat_markers(chat->name).back();
    if (const auto end = form.tokenizer->find(marker)) ids.push_back(*end);
  }
  return ids;
}

}  // namespace pipetrain
