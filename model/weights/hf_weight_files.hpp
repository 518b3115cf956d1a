// Which files of a Hugging Face folder hold its weights: one safetensors file, or shards.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace pipetrain {

// What holds the weights: an index of shards, or files that are read whole.
struct WeightFiles {
  std::filesystem::path index;
  std::vector<std::string> files;
};

// The names that Hugging Face writes come first; else what is there must be the weights without doubt. Throws Error(input)
// naming the folder where there are none, or more than one set of them.
WeightFiles find_weight_files(const std::filesystem::path& folder);
// Whether there are any. Throws Error(input) where the folder cannot be searched.
bool has_weight_files(const std::filesystem::path& folder);

// Which of the folder's files has which tensor.
using WeightMap = std::map<std::string, std::string>;

// Of an index. Throws Error(input) naming file and line.
WeightMap read_weight_index(const std::filesystem::path& index);

}  // namespace pipetrain
