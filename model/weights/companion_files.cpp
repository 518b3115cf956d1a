#include "model/weights/companion_files.hpp"

#include <algorithm>
#include <system_error>

#include "core/checksum.hpp"
#include "files/file_io.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t most_bytes = std::uintmax_t{64} << 20;

// Settings of a model that belong to no tokenizer: for generating text, and of a multimodal model's images.
constexpr const char* model_settings[] = {"generation_config.json", "preprocessor_config.json", "processor_config.json"};
constexpr const char* tokenizer_names[] = {
    "tokenizer.json", "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.json",     "merges.txt",      "chat_template.jinja",   "chat_template.json"};

// Opens the file too, so that one that cannot be copied is reported now rather than at the end of a run.
void add_if_there(const fs::path& file, std::vector<fs::path>& files) {
  std::error_code error;
  if (!fs::is_regular_file(file, error) || fs::file_size(file, error) > most_bytes || error) return;
  const InputFile opened(file);
  files.push_back(file);
}

// Adds the chat templates that a model has besides its usual one, each named by its file.
void add_chat_templates(const fs::path& folder, std::vector<fs::path>& files) {
  std::vector<fs::path> templates;
  std::error_code error;
  for (fs::directory_iterator entry(folder / chat_templates_folder, error), end; !error && entry != end; entry.increment(error))
    if (entry->path().extension() == ".jinja") templates.push_back(entry->path());
  std::sort(templates.begin(), templates.end());
  for (const fs::path& file : templates) add_if_there(file, files);
}

}  // namespace

std::vector<fs::path> tokenizer_files(const fs::path& tokenizer) {
  std::error_code ignored;
  const bool is_file = fs::is_regular_file(tokenizer, ignored);
  const fs::path folder = is_file ? tokenizer.parent_path() : tokenizer;
  std::vector<fs::path> files;
  for (const char* name : tokenizer_names) {
    if (!is_file || tokenizer.filename() != name) add_if_there(folder / name, files);
  }
  add_chat_templates(folder, files);
  if (is_file) add_if_there(tokenizer, files);
  return files;
}

std::vector<fs::path> companion_files(const fs::path& folder, const fs::path& tokenizer) {
  std::error_code ignored;
  const bool is_folder = fs::is_directory(folder, ignored);
  std::vector<fs::path> files;
  if (is_folder || !tokenizer.empty()) files = tokenizer_files(tokenizer.empty() ? folder : tokenizer);
  if (is_folder)
    for (const char* name : model_settings) add_if_there(folder / name, files);
  return files;
}

std::string companion_name(const fs::path& file) {
  const bool is_template = file.parent_path().filename() == chat_templates_folder;
  return ((is_template ? fs::path(chat_templates_folder) : fs::path()) / file.filename()).string();
}

std::uint64_t copy_companion(const fs::path& file, const fs::path& folder) {
  const std::string text = read_text(file, most_bytes);
  const fs::path to = folder / companion_name(file);
  std::error_code ignored;  // if this fails, creating the file fails with the reason
  fs::create_directory(to.parent_path(), ignored);
  OutputFile copy(to);
  copy.write(text.data(), text.size());
  copy.sync();
  if (to.parent_path() != folder) sync_folder(to.parent_path());
  return checksum(text.data(), text.size());
}

}  // namespace pipetrain
