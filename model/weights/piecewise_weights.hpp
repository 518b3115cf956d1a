// Logical tensors that lie in pieces in the files of a checkpoint's ranks (tensor_piece.hpp), read as if they were whole: any
// slice of them, whatever the slices are that the files have. Files are mapped: only what a slice needs is read.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/weights/weights.hpp"

namespace pipetrain {

// "rank-00003.safetensors"
std::string rank_file_name(int rank);
bool is_rank_file(const std::string& name);
// Those of a folder, by name; none where it cannot be read.
std::vector<std::filesystem::path> rank_files(const std::filesystem::path& folder);

// The sources of all states that the files hold, by name. Each has every element of every logical tensor of the model exactly
// once, but for frozen tensors (ModelConfig::trained), of which there are weights alone. Throws Error(input) that names file
// and tensor where one does not.
std::map<std::string, std::shared_ptr<const WeightSource>> piecewise_states(const ModelConfig& config,
                                                                            const std::vector<std::filesystem::path>& files);
// The weights alone, whatever the files hold of other states; null where they hold no weights. Throws likewise.
std::shared_ptr<const WeightSource> piecewise_weights(const ModelConfig& config,
                                                      const std::vector<std::filesystem::path>& files);

}  // namespace pipetrain
