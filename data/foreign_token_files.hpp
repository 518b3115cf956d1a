// Files of token ids that other programs write, read in place. Internal to data/.
#pragma once

#include <filesystem>
#include <memory>

#include "data/documents.hpp"

namespace pipetrain {

// All throw Error(input) that names the file, and what in its header or in the files beside it does not fit.

// Megatron-LM: NAME.bin and its index NAME.idx; ids of 2 bytes (uint16) or 4 (int32), sequences without gaps.
std::unique_ptr<TokenStream> open_megatron_file(const std::filesystem::path& bin, std::int64_t vocabulary);
// llm.c: 256 integers of header, then ids of 2 bytes (GPT-2) or 4 (Llama 3).
std::unique_ptr<TokenStream> open_llmc_file(const std::filesystem::path& bin, std::int64_t vocabulary);
// datatrove: NAME.ds, all ids; NAME.ds.index, where documents end, tells of how many bytes they are.
std::unique_ptr<TokenStream> open_datatrove_file(const std::filesystem::path& ds, std::int64_t vocabulary);

}  // namespace pipetrain
