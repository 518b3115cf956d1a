// Prompts as token ids that a model can go on with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/prompts.hpp"
#include "data/tokenizers/tokenizer.hpp"
#include "model/config/config.hpp"

namespace pipetrain {

struct PromptForm {
  const Tokenizer* tokenizer = nullptr;      // null: bytes are tokens
  // A prompt is then the user's message; see choose_chat_form(). None: the tokenizer's, for prompts that are chats.
  std::optional<std::string> chat_template;
  std::string system;                        // of a chat, the message before it; may be empty
};

// With the special tokens that the tokenizer puts around a text. Throws Error(input), in a file of prompts with file and line:
// messages where no template is known or in another order than it allows, no tokens, more than the model has positions for with
// one new token, and ids that it does not have.
std::vector<std::vector<std::int32_t>> prompt_ids(const std::vector<Prompt>& prompts, const PromptForm& form,
                                                  const ModelConfig& config);

// What ends an answer: the ids that the model's folder names, else the tokenizer's end of text; of a chat also what its
// template puts behind an answer.
std::vector<std::int32_t> end_ids(const std::string& model_folder, const std::vector<Prompt>& prompts, const PromptForm& form,
                                  const ModelConfig& config);

}  // namespace pipetrain
