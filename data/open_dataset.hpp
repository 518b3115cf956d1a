// Opens samples of tokens from text files, JSON lines, Parquet, folders, weighted mixtures or the text built into the program.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/rows/preference_form.hpp"
#include "data/rows/text_keys.hpp"
#include "data/samples/dataset.hpp"

namespace pipetrain {

struct DataInput {
  std::filesystem::path path;
  std::optional<double> weight;
};

// Parses "PATH" or "PATH:WEIGHT"; a path that exists as written is never cut. Throws Error(input) about that setting if
// the weight is not above 0.
DataInput parse_data_input(std::string_view text, const char* setting = "data");

// Says how documents and rows become samples.
enum class Pack {
  none,       // each row is a sample of its own, padded at the end
  documents,  // documents are concatenated and cut into samples of one length
  isolated,   // the same samples, but attention and positions stay within a document
};
// Returns the names that users write, in the order of Pack.
const std::vector<std::string>& pack_names();
const std::string& name_of(Pack pack);

// The data that a user chooses, and how to read it.
struct DataSettings {
  std::vector<DataInput> inputs;                // empty: the text built into the program
  std::filesystem::path tokenizer;              // for text, as open_tokenizer() takes it; empty: bytes are tokens
  std::optional<std::int64_t> sequence_length;  // not given: the longest row that is a sample, else the model's
  TextKeys text_keys;
  std::optional<Pack> pack;   // not given: documents for text, none for other rows
  std::string chat_template;  // for rows {"messages"}; empty: the tokenizer's
};

struct DatasetOptions : DataSettings {
  const char* setting = "data";                       // the setting that the inputs come from, for errors
  std::int64_t default_sequence_length = 0;           // usually the model's; 0 is an error if it is needed
  std::int64_t max_positions = 0;                     // the longest sequence the model takes; 0: no limit
  std::int64_t vocabulary = 256;                      // token ids are below this
  std::int64_t classes = 0;                           // for rows with "label"; 0: labels are the next tokens
  std::optional<PreferenceReading> preferences = {};  // rows are preferences
  int threads = 0;                                    // for tokenizing; 0: as many as the machine has cores
  bool shuffle = true;                                // a mixture also shuffles within each of its inputs
  std::uint64_t seed = 0;                             // for a mixture's choices
  std::vector<std::string>* notes = nullptr;          // receives notes on the data for the user, a line each
};

// Opens and checks every input. Every row of a .jsonl or .parquet file is parsed once, here, so that wrong data is
// found before training.
//
// .txt: the bytes are the tokens. .jsonl: rows {"text"} are documents of bytes; {"prompt", "response"} and {"messages"}
// are samples of which the response, or the answers, count; {"input_ids"} are samples, of which with "labels" those
// count that are not -100. With `classes`, rows {"text", "label"} and {"input_ids", "label"} are samples with the label
// at the last token. With `preferences`, rows are {"prompt", "chosen", "rejected"} or {"prompt", "completion", "label"}, and
// their completions are samples of which the completion counts (preference_row.hpp). .parquet: such rows. A folder holds such
// files, read in the order of their names. With a tokenizer, texts become its ids, which are kept in memory. docs/data.md has
// the table.
//
// Packed documents are joined, with end_of_document() between them if bytes are tokens, else each followed by the token
// that ends a text. They are cut into samples that overlap by one token, so that sample k is tokens [k * seq_len, (k +
// 1) * seq_len]. Files of tokens (.tokens, .bin, .ds) are cut without further tokens. Inputs without weights are read
// one after the other. If any has a weight (1 for the others), an epoch has as many samples as the inputs together, and
// each is drawn from input j with probability weight_j / sum, in order through that input.
//
// Throws Error(input) that names file and line for a path that is missing or of an unknown kind, for empty data, for a
// row that is not JSON, not of these forms or has more text than is read, for a wrong tokenizer or file of tokens or
// one with more ids than the vocabulary, for a token id that is not an integer in [0, vocabulary), for a row longer
// than sequence_length or max_positions or without counted labels, for a text of more than 16 MiB in one row, and for
// data that cannot be packed as asked.
std::unique_ptr<Dataset> open_dataset(const DatasetOptions& options);

// Returns the text built into the program: about 100 KB of plain ASCII English.
std::string_view inside_text();

}  // namespace pipetrain
