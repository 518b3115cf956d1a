// The files of a model folder besides weights and config.json: its tokenizer, and its settings for text and images.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace pipetrain {

// The folder inside a model's folder in which transformers keeps chat templates besides the usual one, as NAME.jinja.
inline constexpr const char* chat_templates_folder = "additional_chat_templates";

// Returns the files of a Hugging Face tokenizer, generation_config.json, the settings of a multimodal model's images and chat
// templates in a folder, except files that are larger than any tokenizer's (64 MiB). Throws Error(input) if one cannot be read,
// or is a pointer of Git LFS. If another tokenizer is given, as for tokenizer_files(), its files replace the folder's own.
std::vector<std::filesystem::path> companion_files(const std::filesystem::path& folder,
                                                   const std::filesystem::path& tokenizer = {});
// Returns the files of a tokenizer, given as its folder or as one of its files, without a model's own settings.
std::vector<std::filesystem::path> tokenizer_files(const std::filesystem::path& tokenizer);
// Returns the file's path inside a model's folder: "tokenizer.json", "additional_chat_templates/rag.jinja".
std::string companion_name(const std::filesystem::path& file);
// Copies a file to its path in a model's folder, on disk when it returns; returns its checksum. Throws Error(input).
std::uint64_t copy_companion(const std::filesystem::path& file, const std::filesystem::path& folder);

}  // namespace pipetrain
