#include "model/weights/companion_files.hpp"

#include <cstdint>
#include <string>
#include <system_error>

#include "core/checksum.hpp"
#include "files/file_io.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t most_bytes = std::uintmax_t{64} << 20;

constexpr const char* generation_file = "generation_config.json";
constexpr const char* tokenizer_names[] = {
    "tokenizer.json", "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.json",     "merges.txt",      "chat_template.jinja",   "chat_template.json"};

// Opened too: what cannot be copied is better told now than at the end of a run.
void add_if_there(const fs::path& file, std::vector<fs::path>& files) {
  std::error_code error;
  if (!fs::is_regular_file(file, error) || fs::file_size(file, error) > most_bytes || error) return;
  const InputFile opened(file);
  files.push_back(file);
}

}  // namespace

std::vector<fs::path> tokenizer_files(const fs::path& tokenizer) {
  std::error_code ignored;
  const bool is_file = fs::is_regular_file(tokenizer, ignored);
  std::vector<fs::path> files;
  for (const char* name : tokenizer_names) {
    if (!is_file || tokenizer.filename() != name) add_if_there((is_file ? tokenizer.parent_path() : tokenizer) / name, files);
  }
  if (is_file) add_if_there(tokenizer, files);
  return files;
}

std::vector<fs::path> companion_files(const fs::path& folder, const fs::path& tokenizer) {
  std::error_code ignored;
  const bool is_folder = fs::is_directory(folder, ignored);
  std::vector<fs::path> files;
  if (is_folder || !tokenizer.empty()) files = tokenizer_files(tokenizer.empty() ? folder : tokenizer);
  if (is_folder) add_if_there(folder / generation_file, files);
  return files;
}

std::uint64_t copy_companion(const fs::path& file, const fs::path& folder) {
  const std::string text = read_text(file, most_bytes);
  OutputFile copy(folder / file.filename());
  copy.write(text.data(), text.size());
  copy.sync();
  return checksum(text.data(), text.size());
}

}  // namespace pipetrain
