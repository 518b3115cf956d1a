// Turns prompts into token ids that a model can continue.
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
  const Tokenizer* tokenizer = nullptr;  // null: bytes are tokens
  // See choose_chat_form(): the prompt is then the user's message; no value: the tokenizer's template, for prompts with
  // messages.
  std::optional<std::string> chat_template;
  std::string system;  // the system message of a chat; may be empty
};

// Adds the special tokens that the tokenizer puts around a text. Throws Error(input), for a file of prompts with file
// and line: messages without a known template or in an order that it does not allow, no tokens, too many tokens to
// leave the model a position for a new one, and ids that it does not have.
std::vector<std::vector<std::int32_t>> prompt_ids(const std::vector<Prompt>& prompts, const PromptForm& form,
                                                  const ModelConfig& config);

// Returns the ids that end an answer: those that the model's folder names, else the tokenizer's end of text; for a chat
// also the one that its template puts after an answer.
std::vector<std::int32_t> end_ids(const std::string& model_folder, const std::vector<Prompt>& prompts, const PromptForm& form,
                                  const ModelConfig& config);

}  // namespace pipetrain
