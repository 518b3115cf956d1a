// Readers of .jsonl files. Internal to data/.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "data/documents.hpp"

namespace pipetrain {

struct JsonlKind {
  bool has_ids = false;   // rows are {"input_ids"}, else {"text"}
  std::int64_t ids = 0;   // length of the first row's input_ids
  std::string first_row;  // "rows.jsonl:1"
};

// Looks at the first row only. Throws Error(input) as the readers below.
JsonlKind peek_jsonl(const std::filesystem::path& path);

// Reads the texts of a file of rows {"text"} in parts, for several threads. Thread-safe.
class JsonlTexts {
 public:
  explicit JsonlTexts(const std::filesystem::path& path);
  ~JsonlTexts();
  // The end of the part of about `bytes` bytes that starts at this row; the file's size for the last part.
  std::int64_t end_of_part(std::int64_t begin, std::int64_t bytes) const;
  std::int64_t size() const;
  // Calls take(text) for each text of a part that is not empty. Throws Error(input) that names file and line.
  void read_part(std::int64_t begin, std::int64_t end, const std::function<void(std::string_view)>& take) const;

 private:
  struct File;
  std::unique_ptr<File> file_;
};

// Rows {"text"}: one document of UTF-8 bytes each; rows with an empty text are skipped. Every row is checked here.
std::unique_ptr<TokenStream> open_jsonl_text(const std::filesystem::path& path, std::int64_t vocabulary);

// Rows {"input_ids"}: one sample of sequence_length + 1 ids each. Every row is checked here.
std::unique_ptr<Dataset> open_jsonl_ids(const std::filesystem::path& path, std::int64_t sequence_length,
                                        std::int64_t vocabulary);

}  // namespace pipetrain
