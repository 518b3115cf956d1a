// The formats of data files. Internal to data/.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/documents.hpp"

namespace pipetrain {

enum class DataKind {
  text,       // one document
  json_rows,  // .jsonl: documents, or samples of ids
  tokens,     // ids of documents, each with what ends it
};

struct DataFormat {
  const char* extension;
  DataKind kind;
  const char* what;
  // Of tokens: opens the file for a vocabulary of that many ids.
  std::function<std::unique_ptr<TokenStream>(const std::filesystem::path& path, std::int64_t vocabulary)> open;
};

const std::vector<DataFormat>& data_formats();
// By the file name's ending; null for an unknown one.
const DataFormat* format_of(const std::filesystem::path& path);
// The files of one input: the file itself, or those of a folder, sorted by name. Skips a folder's files of unknown formats.
// Throws Error(input) about that setting when none is left.
std::vector<std::filesystem::path> list_data_files(const std::filesystem::path& path, const char* setting = "data");
// ".txt, .jsonl, ...", for errors.
std::string known_extensions();

}  // namespace pipetrain
