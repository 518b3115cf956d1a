// Reads files of prompts.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/tokenizers/chat_program.hpp"
#include "data/tokenizers/chat_template.hpp"

namespace pipetrain {

struct Prompt {
  std::string text;                   // empty if there are messages
  std::vector<ChatMessage> messages;  // from a row {"messages": [{"role", "content"}, ...]}
  Chat chat = {};                     // the same messages, and the row's other values for templates that are interpreted
  std::string unrendered = {};        // the reason why a built-in template cannot render the row; empty if it can
  std::string place;                  // "prompts.txt:3", for errors; empty: no file
  std::string adapter = {};           // the row's "adapter", the name of one; empty: the row names none
};

struct PromptFile {
  std::vector<Prompt> prompts;
  std::string note;  // names unknown keys of rows, which are not read; empty if there are none
};

// FILE.jsonl has a row {"prompt": "text"} or {"messages": [...]} on each line, with "adapter": "name" where several may
// continue it; any other file has a prompt on each
// line. At most 64 MiB. Throws Error(input) that names file and line, also for an empty line, an empty prompt, a file
// without prompts, and a row with another key that adds to the model's input and that no template renders ("images").
PromptFile read_prompts(const std::filesystem::path& file);

}  // namespace pipetrain
