
#include "core/error.hpp"
#include "data/tokenizers/hugging_face_tokenizer.hpp"
#include "data/tokenizers/sentencepiece_tokenizer.hpp"
#include "data/tokenizers/tokenizer.hpp"

namespace pipetrain {

namespace fs = std::filesystem;

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, SpecialTokens around) const {
  std::vector<std::int32_t> ids;
  encoder()->encode(text, around, ids);
  return ids;
}

namespace {

[[noreturn]] void fail_opening(const fs::path& path, const std::string& why) {
  throw Error(ErrorKind::input, {"tokenizer", path.string()}, why);
}

fs::path file_in(const fs::path& folder) {
  std::error_code ignored;
  for (const char* name : {"tokenizer.json", "tokenizer.model", "vocab.json"})
    if (fs::exists(folder / name, ignored)) return folder / name;
  fail_opening(folder,
               "the folder holds neither tokenizer.json, tokenizer.model nor vocab.json; give the folder of a tokenizer");
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) fail_opening(path, "there is no such file or folder; check the path");
  const fs::path file = fs::is_directory(path, ignored) ? file_in(path) : path;
  if (file.extension() == ".model") return open_sentencepiece(file);
  if (file.filename() == "vocab.json") return open_vocabulary_and_merges(file, file.parent_path() / "merges.txt");
  if (file.extension() == ".json") return open_tokenizer_json(file);
  fail_opening(
      path,
      "a file of this kind cannot be read; give tokenizer.json, tokenizer.model, vocab.json next to merges.txt, or a folder");
}

}  // namespace pipetrain
