// Opens samples of tokens from text files, JSON lines, Parquet, folders, weighted mixtures or the text that ships inside.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/samples/dataset.hpp"

namespace pipetrain {

struct DataInput {
  std::filesystem::path path;
  std::optional<double> weight;
};

// "PATH" or "PATH:WEIGHT"; a path that exists as written is never cut. Throws Error(input) about that setting on a weight that
// is not above 0.
DataInput parse_data_input(std::string_view text, const char* setting = "data");

// How documents and rows become samples.
enum class Pack {
  none,       // each row a sample of its own, padded behind
  documents,  // one behind the other, cut into samples of one length
  isolated,   // the same samples, in which attention and positions end with the document
};
// As users write them, in the order of Pack.
const std::vector<std::string>& pack_names();
const std::string& name_of(Pack pack);

struct DatasetOptions {
  std::vector<DataInput> inputs;                  // empty: the text that ships inside
  const char* setting = "data";                   // which they come from, for errors
  std::int64_t sequence_length = 0;               // 0: of rows that are samples the longest's, else default_sequence_length
  std::int64_t default_sequence_length = 0;       // usually the model's; 0 is an error when it is needed
  std::int64_t max_positions = 0;                 // the longest sequence the model takes; 0: no limit
  std::int64_t vocabulary = 256;                  // token ids are below this
  std::filesystem::path tokenizer;                // of text, as open_tokenizer() takes it; empty: bytes are tokens
  std::vector<std::string> text_keys = {"text"};  // of rows, in their order
  bool text_keys_chosen = false;                  // by the user: what else is in rows of such texts is passed over
  std::string chat_template;                      // of rows {"messages"}; empty: as the tokenizer tells
  std::optional<Pack> pack;                       // not given: documents for text, none for other rows
  std::int64_t classes = 0;                       // of rows with "label"; 0: labels are the tokens that follow
  int threads = 0;                                // that tokenize; 0: as many as the machine has cores
  bool shuffle = true;                            // a mixture also shuffles inside each of its inputs
  std::uint64_t seed = 0;                         // of a mixture's choices
  std::vector<std::string>* notes = nullptr;      // gets what users should know of the data, a line each
};

// Opens and checks every input: every row of a .jsonl or .parquet file is parsed once, here, so that wrong data is found before
// training.
//
// .txt: its bytes are the tokens. .jsonl: rows {"text"} are documents of bytes; {"prompt", "response"} and {"messages"} samples
// of which the response, or the answers, count; {"input_ids"} samples, with "labels" those that are not -100 count. With
// `classes`, rows {"text", "label"} and {"input_ids", "label"}, whose label is said at the last token. .parquet: such rows. A
// folder holds such files, read in the order of their names. With a tokenizer, texts are its ids, and are kept in memory.
// docs/data.md has the table.
//
// Packed documents are joined, with end_of_document() between them where bytes are tokens, else each with the token that ends
// a text behind it, and cut into samples that overlap by one token, so that sample k is tokens [k * seq_len, (k + 1) *
// seq_len]. Files of tokens (.tokens, .bin, .ds) are cut so as they stand. Inputs without weights are read one after the other;
// with a weight for any (1 for the others), an epoch has as many samples as the inputs together, and each is drawn from input j
// with probability weight_j / sum, in turn through that input.
//
// Throws Error(input) that names file and line for a path that is missing or of an unknown kind, empty data, a row that is not
// JSON or not of these forms or says more of its text than is read, a tokenizer or a file of tokens that is wrong or has more
// ids than the vocabulary, a token id that is no integer in [0, vocabulary), a row longer than sequence_length or
// max_positions, or with nothing to learn, a text of more than 16 MiB in one row, and what cannot be packed so.
std::unique_ptr<Dataset> open_dataset(const DatasetOptions& options);

// The text that ships inside the program: about 100 KB of plain ASCII English.
std::string_view inside_text();

}  // namespace pipetrain
