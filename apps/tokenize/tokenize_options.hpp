// The options of `pipetrain tokenize`.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/options/option_table.hpp"
#include "apps/options/train_options.hpp"
#include "data/rows/text_keys.hpp"

namespace pipetrain {

struct TokenizeOptions {
  std::filesystem::path tokenizer;
  std::vector<std::filesystem::path> data;  // files of text, in their order; empty: the built-in text
  TextKeys text_keys;
  std::optional<std::filesystem::path> out;  // a regular file
  bool show = false;
  int threads = 1;
  std::vector<std::string> notes;
};

// Throws Error(input).
TokenizeOptions parse_tokenize_options(const std::vector<std::string>& arguments, const Environment& environment);
std::string tokenize_help();

}  // namespace pipetrain
