// The table of data file formats. Internal to data/.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/samples/documents.hpp"

namespace pipetrain {

enum class DataKind {
  text,    // one document a file
  rows,    // documents, or samples made of ids
  tokens,  // ids of documents, each followed by its end token
};

struct DataFormat {
  const char* extension;
  DataKind kind;
  const char* what;
  // For files of tokens: opens the file for a vocabulary of that many ids.
  std::function<std::unique_ptr<TokenStream>(const std::filesystem::path& path, std::int64_t vocabulary)> open;
};

const std::vector<DataFormat>& data_formats();
// Looks the format up by the end of the name, after which text and JSON lines may have .gz or .zst; null for an unknown
// format.
const DataFormat* format_of(const std::filesystem::path& path);
// Returns the paths that match a path with wildcards (*, ?, [...]), sorted by name. A path that exists as written, or
// matches nothing, is returned as it is.
std::vector<std::filesystem::path> matching_paths(const std::filesystem::path& path);
// Lists the files of one input: each path that it matches, or the contents of a folder, sorted by name. Skips a
// folder's files of unknown formats. Throws Error(input) about that setting if there are no files.
std::vector<std::filesystem::path> list_data_files(const std::filesystem::path& path, const char* setting = "data");
// Returns ".txt, .jsonl, ...", for errors.
std::string known_extensions();

}  // namespace pipetrain
