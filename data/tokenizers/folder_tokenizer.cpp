#include "data/tokenizers/folder_tokenizer.hpp"

#include <fmt/format.h>

#include <system_error>

#include "core/error.hpp"
#include "data/tokenizers/tokenizer.hpp"

namespace pipetrain {

namespace fs = std::filesystem;

bool holds_tokenizer(const fs::path& folder) {
  std::error_code ignored;
  const auto holds = [&](const char* name) { return fs::exists(folder / name, ignored); };
  return holds("tokenizer.json") || holds("tokenizer.model") || holds("vocab.json");
}

fs::path tokenizer_in_folder(const fs::path& folder, std::int64_t vocabulary, std::vector<std::string>& notes) {
  if (!holds_tokenizer(folder)) return {};
  const auto read_bytes = [&](const std::string& why) {
    notes.push_back(fmt::format("the tokenizer in {} is not used ({}): texts are read as bytes; name another tokenizer",
                                folder.string(), why));
    return fs::path();
  };
  try {
    const std::int64_t own = open_tokenizer(folder)->own_vocabulary();
    if (own > vocabulary)
      return read_bytes(fmt::format("its ids go up to {}, and the model's vocabulary has {}", own - 1, vocabulary));
  } catch (const Error& error) {
    return read_bytes(error.what());
  }
  notes.push_back(fmt::format("texts are read with the tokenizer in {}", folder.string()));
  return folder;
}

}  // namespace pipetrain
