// Finds the files of a Hugging Face folder that hold its weights: one safetensors file, or shards.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace pipetrain {

// The files that hold the weights: an index of shards, or files that are read whole.
struct WeightFiles {
  std::filesystem::path index;
  std::vector<std::string> files;
};

// Prefers the names that Hugging Face writes; any other files must be the weights beyond doubt. Throws
// Error(input) naming the folder if there are none, or more than one set of them.
WeightFiles find_weight_files(const std::filesystem::path& folder);
// Returns true if there are any. Throws Error(input) if the folder cannot be searched.
bool has_weight_files(const std::filesystem::path& folder);

// Maps each tensor's name to the folder's file that holds it.
using WeightMap = std::map<std::string, std::string>;

// Reads the map of an index. Throws Error(input) naming file and line.
WeightMap read_weight_index(const std::filesystem::path& index);

}  // namespace pipetrain
