#include "data/formats/formats.hpp"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>

#include "core/error.hpp"
#include "data/formats/foreign_token_files.hpp"
#include "data/formats/token_file.hpp"
#include "data/rows/parquet.hpp"
#include "files/file_io.hpp"
#include "files/unpacked_file.hpp"

namespace pipetrain {

namespace fs = std::filesystem;

namespace {

// Reads a file with an index next to it as Megatron-LM's, any other as llm.c's.
std::unique_ptr<TokenStream> open_bin(const fs::path& path, std::int64_t vocabulary) {
  std::error_code ignored;
  const bool has_index = fs::exists(fs::path(path).replace_extension(".idx"), ignored);
  return has_index ? open_megatron_file(path, vocabulary) : open_llmc_file(path, vocabulary);
}

[[noreturn]] void fail_data(const char* setting, const std::string& input, const std::string& why) {
  throw Error(ErrorKind::input, {setting, input}, why);
}

std::vector<fs::path> files_of(const fs::path& path, const char* setting) {
  const auto fail = [&](const std::string& why) { fail_data(setting, path.string(), why); };
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) fail("there is no such file or folder; check the path");
  if (error) fail(fmt::format("cannot be read ({}); {}", error.message(), remedy_of_read_failure(error.value())));
  if (!fs::is_directory(status)) {
    if (format_of(path) != nullptr) return {path};
    if (path.extension() == ".idx") fail("is the index of a file of tokens; give the .bin next to it");
    fail(fmt::format("a file of this kind cannot be read; give {} or a folder of such files", known_extensions()));
  }
  std::vector<fs::path> files;
  std::error_code ignored;  // a dangling entry is reported when it is opened
  for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error))
    if (format_of(entry->path()) != nullptr && !entry->is_directory(ignored)) files.push_back(entry->path());
  if (error) fail(fmt::format("the folder cannot be read ({}); {}", error.message(), remedy_of_read_failure(error.value())));
  if (files.empty()) fail(fmt::format("the folder holds no file of {}; give a folder with data", known_extensions()));
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

const std::vector<DataFormat>& data_formats() {
  static const std::vector<DataFormat> table = {
      {".txt", DataKind::text, "text, one document", nullptr},
      {".jsonl", DataKind::rows, "JSON lines", nullptr},
      {".parquet", DataKind::rows, "rows of Apache Parquet", nullptr},
      {".tokens", DataKind::tokens, "token ids written by tokenize", open_token_file},
      {".bin", DataKind::tokens, "token ids of Megatron-LM (with .idx) or llm.c", open_bin},
      {".ds", DataKind::tokens, "token ids of datatrove (with .ds.index)", open_datatrove_file},
  };
  return table;
}

const DataFormat* format_of(const fs::path& path) {
  const auto& table = data_formats();
  const fs::path name = unpacked_name(path);
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const DataFormat& format) { return name.extension() == format.extension; });
  if (found == table.end() || (is_packed(path) && (found->kind == DataKind::tokens || is_parquet(name)))) return nullptr;
  return &*found;
}

std::string known_extensions() {
  std::string names;
  for (const DataFormat& format : data_formats()) names += (names.empty() ? "" : ", ") + std::string(format.extension);
  return names + " (.txt and .jsonl also with .gz or .zst appended)";
}

std::vector<fs::path> matching_paths(const fs::path& path) {
  std::error_code ignored;
  if (fs::exists(path, ignored) || path.string().find_first_of("*?[") == std::string::npos) return {path};
  glob_t found{};
  const std::unique_ptr<glob_t, void (*)(glob_t*)> guard(&found, globfree);
  if (::glob(path.c_str(), 0, nullptr, &found) != 0 || found.gl_pathc == 0) return {path};
  return {found.gl_pathv, found.gl_pathv + found.gl_pathc};
}

std::vector<fs::path> list_data_files(const fs::path& path, const char* setting) {
  std::vector<fs::path> files;
  for (const fs::path& one : matching_paths(path)) {
    std::vector<fs::path> more = files_of(one, setting);
    std::move(more.begin(), more.end(), std::back_inserter(files));
  }
  return files;
}

}  // namespace pipetrain
