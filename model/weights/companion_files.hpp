// What a model folder has beside weights and config.json for those who use it: its tokenizer, and how to generate text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace pipetrain {

// The folder inside a model's where transformers keeps chat templates beside the usual one, as NAME.jinja.
inline constexpr const char* chat_templates_folder = "additional_chat_templates";

// The files of a Hugging Face tokenizer, generation_config.json and chat templates that lie in a folder. Not those that are
// larger than any tokenizer's (64 MiB). Throws Error(input) where one cannot be read, or is a pointer of Git LFS.
// With another tokenizer, given as for tokenizer_files(), in the place of the folder's own.
std::vector<std::filesystem::path> companion_files(const std::filesystem::path& folder,
                                                   const std::filesystem::path& tokenizer = {});
// The same of a tokenizer, given as its folder or as one of its files, without generation_config.json.
std::vector<std::filesystem::path> tokenizer_files(const std::filesystem::path& tokenizer);
// Its path inside a model's folder: "tokenizer.json", "additional_chat_templates/rag.jinja".
std::string companion_name(const std::filesystem::path& file);
// Copies a file to its place in a model's folder, on disk when it returns; gives its checksum. Throws Error(input).
std::uint64_t copy_companion(const std::filesystem::path& file, const std::filesystem::path& folder);

}  // namespace pipetrain
