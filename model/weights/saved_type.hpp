// How a model folder is written: the type of its weights, and rounding to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace pipetrain {

enum class SavedType { fp32, bf16, fp16 };

// How a model folder is written.
struct ModelFolderOptions {
  SavedType type = SavedType::fp32;
  std::uint64_t shard_bytes = 5'000'000'000;      // of weights in one file at most, but for a tensor that is larger
  std::vector<std::filesystem::path> companions;  // copied: companion_files.hpp
};

std::size_t bytes_of(SavedType type) noexcept;           // of one element
const char* safetensors_name(SavedType type) noexcept;   // "BF16"
const char* transformers_name(SavedType type) noexcept;  // "bfloat16", as config.json says

// out = the values, each rounded to the nearest, ties to even, as `type` has it in files: count * bytes_of(type) bytes. Returns
// false where a finite value has none: for fp16, beyond 65,504.
bool round_to(SavedType type, const float* values, std::size_t count, void* out) noexcept;

}  // namespace pipetrain
