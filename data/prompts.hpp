// Files of prompts.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/tokenizers/chat_program.hpp"
#include "data/tokenizers/chat_template.hpp"

namespace pipetrain {

struct Prompt {
  std::string text;                   // empty where there are messages
  std::vector<ChatMessage> messages;  // of a row {"messages": [{"role", "content"}, ...]}
  Chat chat = {};                     // the same, and what else of the row templates may render that are interpreted
  std::string unrendered = {};        // why a built-in template cannot render the row; empty where it can
  std::string place;                  // "prompts.txt:3", for errors; empty: no file
};

struct PromptFile {
  std::vector<Prompt> prompts;
  std::string note;  // names the keys of rows that nobody knows and that are not read; empty where there are none
};

// FILE.jsonl: a row {"prompt": "text"} or {"messages": [...]} a line; any other file: a prompt a line. At most 64 MiB. Throws
// Error(input) that names file and line, also for an empty line, an empty prompt, a file without any, and a row that says by
// another key what the model is to read ("history", "images"), which no template renders.
PromptFile read_prompts(const std::filesystem::path& file);

}  // namespace pipetrain
