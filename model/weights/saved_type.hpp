// The format of a model folder's weights: their type, and rounding to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

namespace pipetrain {

class MultimodalParts;

enum class SavedType { fp32, bf16, fp16 };

// The options for writing a model folder.
struct ModelFolderOptions {
  SavedType type = SavedType::fp32;
  std::uint64_t shard_bytes = 5'000'000'000;      // at most this many bytes of weights in one file, except for a larger tensor
  std::vector<std::filesystem::path> companions;  // files to copy: companion_files.hpp
  std::shared_ptr<const MultimodalParts> multimodal;  // the parts to which the model is added; null: it is a language model
};

std::size_t bytes_of(SavedType type) noexcept;           // of one element
const char* safetensors_name(SavedType type) noexcept;   // "BF16"
const char* transformers_name(SavedType type) noexcept;  // "bfloat16", as config.json says

// out = the values, each rounded to nearest, ties to even, as `type` is stored in files: count * bytes_of(type)
// bytes. Returns false if a finite value has no representation: for fp16, beyond 65,504.
bool round_to(SavedType type, const float* values, std::size_t count, void* out) noexcept;

}  // namespace pipetrain
