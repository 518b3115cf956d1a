// Tokenizes the texts of files, by several threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "data/rows/text_reading.hpp"
#include "data/tokenizers/tokenizer.hpp"

namespace pipetrain {

class TokenStream;

// Reads files .txt (one document), .jsonl and .parquet (one a row; rows with an empty text are skipped) in order, and
// calls `take` with the documents in the same order, part by part, on the calling thread. Uses memory for a few parts
// of about 1 MB for each thread, or for the largest document. Throws Error(input) that names file and line, or that the
// tokenizer names no token that ends a text; errors of `take` pass through.
void tokenize_files(const std::vector<std::filesystem::path>& files, const TextReading& reading,
                    const std::function<void(TokenizedDocuments&&)>& take);

// Returns all of a text as one document.
TokenizedDocuments tokenize_text(std::string_view text, const Tokenizer& tokenizer);

// Tokenizes files into memory: 2 or 4 bytes an id, as the vocabulary needs.
std::unique_ptr<TokenStream> tokenized_in_memory(const std::vector<std::filesystem::path>& files, const TextReading& reading);
std::unique_ptr<TokenStream> tokenized_in_memory(std::string_view text, const Tokenizer& tokenizer, std::int64_t vocabulary);

}  // namespace pipetrain
