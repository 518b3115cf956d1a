#include "actors/generation/prompt_ids.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "model/families/generation_config.hpp"

namespace pipetrain {
namespace {

[[noreturn]] void fail(const Prompt& prompt, const std::string& why) {
  throw prompt.place.empty() ? Error(ErrorKind::input, Setting{"prompt", ""}, why)
                             : Error(ErrorKind::input, fmt::format("{}: {}", prompt.place, why));
}

std::string chat_text(const Prompt& prompt, const PromptForm& form) {
  std::vector<ChatMessage> messages = prompt.messages;
  if (messages.empty()) messages.push_back({"user", prompt.text});
  if (!form.system.empty() && messages.front().role != "system") messages.insert(messages.begin(), {"system", form.system});
  std::string text;
  try {
    for (const ChatPart& part : render_chat(*form.chat_template, messages, true)) text += part.text;
  } catch (const Error& error) {
    if (error.setting() != nullptr || prompt.place.empty()) throw;
    fail(prompt, error.what());
  }
  return text;
}

std::vector<std::int32_t> ids_of(const Prompt& prompt, const PromptForm& form) {
  if (!form.chat_template && !prompt.messages.empty())
    fail(prompt, "\"messages\" need a chat template (chatml, llama2, llama3); give the model's");
  const std::string text = form.chat_template ? chat_text(prompt, form) : prompt.text;
  if (form.tokenizer != nullptr) return form.tokenizer->encode(text);
  std::vector<std::int32_t> bytes;
  for (const char byte : text) bytes.push_back(static_cast<unsigned char>(byte));
  return bytes;
}

void check(const Prompt& prompt, const std::vector<std::int32_t>& ids, const ModelConfig& config) {
  if (ids.empty()) fail(prompt, "the prompt has no tokens; give it text");
  if (std::ssize(ids) >= config.max_positions)
    fail(prompt, fmt::format("the prompt has {} tokens, and the model {} positions, so that nothing can follow; shorten it",
                             ids.size(), config.max_positions));
  const std::int32_t most = *std::max_element(ids.begin(), ids.end());
  if (most >= config.vocabulary)
    fail(prompt, fmt::format("the tokenizer gives the id {}, and the model has {}; give the model's tokenizer", most,
                             config.vocabulary));
}

// Of the templates of render_chat().
std::string answer_end(const std::string& chat_template) {
  if (chat_template == "chatml") return "<|im_end|>";
  return chat_template == "llama3" ? "<|eot_id|>" : "</s>";
}

}  // namespace

std::vector<std::vector<std::int32_t>> prompt_ids(const std::vector<Prompt>& prompts, const PromptForm& form,
                                                  const ModelConfig& config) {
  std::vector<std::vector<std::int32_t>> all;
  for (const Prompt& prompt : prompts) {
    all.push_back(ids_of(prompt, form));
    check(prompt, all.back(), config);
  }
  return all;
}

std::vector<std::int32_t> end_ids(const std::string& model_folder, const PromptForm& form, const ModelConfig& config) {
  std::vector<std::int32_t> ids = read_end_ids(model_folder, config.vocabulary);
  if (ids.empty()) ids.assign(config.eos_ids.begin(), config.eos_ids.end());  // of a file that is no folder
  if (form.tokenizer == nullptr) return ids;
  if (ids.empty()) {
    if (const auto end = form.tokenizer->end_of_text()) ids.push_back(*end);
  }
  if (form.chat_template) {
    if (const auto end = form.tokenizer->find(answer_end(*form.chat_template))) ids.push_back(*end);
  }
  return ids;
}

}  // namespace pipetrain
