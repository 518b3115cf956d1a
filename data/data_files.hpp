// Reads the files of one input of a run as a dataset. Internal to data/.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "data/open_dataset.hpp"
#include "data/rows/jsonl_row.hpp"
#include "data/rows/row_table.hpp"
#include "data/rows/text_reading.hpp"
#include "data/samples/documents.hpp"
#include "data/tokenizers/tokenizer.hpp"

namespace pipetrain {

struct DataFile;

// Adjacent files of documents are packed together, so that short files are not lost; adjacent files of rows of text are
// tokenized together.
class DataFiles {
 public:
  // The readers that all inputs of a run share; both must outlive the DataFiles.
  struct TextReaders {
    const Tokenizer* tokenizer = nullptr;  // null: bytes are tokens
    UnreadKeys* unread = nullptr;          // collects unknown keys of the rows
  };
  // Reads all rows that are samples of their own. `options` must outlive this object. Throws Error(input) as open_dataset().
  DataFiles(const DatasetOptions& options, const TextReaders& readers, const std::filesystem::path& path);

  std::int64_t longest_row() const;  // the ids that a model reads of the longest such row; 0: there is none
  // Call it once.
  std::unique_ptr<Dataset> dataset(std::int64_t sequence_length);

 private:
  // Adjacent files of one kind: rows, or streams of documents with or without a marker between them.
  struct FileGroup {
    std::shared_ptr<const RowTable> rows;
    std::vector<std::unique_ptr<TokenStream>> streams;
    bool with_marker = false;
  };

  void add(const DataFile& file);
  void add_rows(std::shared_ptr<const RowTable> rows);
  void add_stream(std::unique_ptr<TokenStream> stream, bool with_marker);
  void finish_texts();
  Pack pack_of(const DataFile& file) const;
  void check_preferences(const DataFile& file) const;
  std::int64_t most_tokens(const RowTable& rows) const;
  void refuse_packing(const DataFile& file) const;
  RowLimits limits(Pack pack) const;
  TextReading reading() const;
  RowWanted wanted() const;

  const DatasetOptions& options_;
  const Tokenizer* tokenizer_;
  UnreadKeys* unread_;
  std::unique_ptr<Tokenizer> bytes_;  // for rows, if there is no tokenizer
  std::string name_;
  std::vector<FileGroup> groups_;
  // Files of text to tokenize together, as documents to pack or as rows.
  std::vector<std::filesystem::path> texts_;
  Pack texts_pack_ = Pack::documents;
  bool texts_are_rows_ = false;
};

}  // namespace pipetrain
