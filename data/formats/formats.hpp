// The table of what data can be. Internal to data/.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/samples/documents.hpp"

namespace pipetrain {

enum class DataKind {
  text,    // one document
  rows,    // documents, or samples of ids
  tokens,  // ids of documents, each with what ends it
};

struct DataFormat {
  const char* extension;
  DataKind kind;
  const char* what;
  // Of tokens: opens the file for a vocabulary of that many ids.
  std::function<std::unique_ptr<TokenStream>(const std::filesystem::path& path, std::int64_t vocabulary)> open;
};

const std::vector<DataFormat>& data_formats();
// By the name's end, behind which text and JSON lines may have .gz or .zst; null for files of no known kind.
const DataFormat* format_of(const std::filesystem::path& path);
// What a path with wildcards (*, ?, [...]) stands for, sorted by name; a path that exists as written, or matches nothing,
// stands for itself.
std::vector<std::filesystem::path> matching_paths(const std::filesystem::path& path);
// The files of one input, of each path that it stands for: itself, or what a folder holds, sorted by name. Skips a folder's
// files of unknown formats. Throws Error(input) about that setting where there are none.
std::vector<std::filesystem::path> list_data_files(const std::filesystem::path& path, const char* setting = "data");
// ".txt, .jsonl, ...", for errors.
std::string known_extensions();

}  // namespace pipetrain
