// The options of `pipetrain tokenize`.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/options/option_table.hpp"
#include "apps/options/train_options.hpp"

namespace pipetrain {

struct TokenizeOptions {
  std::filesystem::path tokenizer;
  std::vector<std::filesystem::path> data;   // files of text, in their order; empty: the text that ships inside
  std::vector<std::string> text_keys;        // of rows, in their order; empty: "text"
  std::optional<std::filesystem::path> out;  // a regular file
  bool show = false;
  int threads = 1;
  std::vector<std::string> notes;
};

// Throws Error(input).
TokenizeOptions parse_tokenize_options(const std::vector<std::string>& arguments, const Environment& environment);
std::string tokenize_help();

}  // namespace pipetrain
