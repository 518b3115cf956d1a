// Opens files of token ids that other programs write; ids are read in place. Internal to data/.
#pragma once

#include <filesystem>
#include <memory>

#include "data/samples/documents.hpp"

namespace pipetrain {

// All functions throw Error(input) that names the file and the fault in its header or index.

// Opens NAME.bin and its index NAME.idx of Megatron-LM: ids of 2 bytes (uint16) or 4 (int32), sequences without gaps.
std::unique_ptr<TokenStream> open_megatron_file(const std::filesystem::path& bin, std::int64_t vocabulary);
// Opens a file of llm.c: 256 integers of header, then ids of 2 bytes (GPT-2) or 4 (Llama 3).
std::unique_ptr<TokenStream> open_llmc_file(const std::filesystem::path& bin, std::int64_t vocabulary);
// Opens NAME.ds of datatrove, which holds the ids. NAME.ds.index holds the ends of documents, from which the width of ids
// follows.
std::unique_ptr<TokenStream> open_datatrove_file(const std::filesystem::path& ds, std::int64_t vocabulary);

}  // namespace pipetrain
