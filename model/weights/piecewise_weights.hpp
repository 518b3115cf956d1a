// Reads logical tensors whose pieces lie in the files of a checkpoint's ranks (tensor_piece.hpp) as if they were whole: any
// slice of them, however the files are sliced. Files are mapped, and only the bytes of the slice are read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/weights/weights.hpp"

namespace pipetrain {

inline constexpr std::string_view weights_name = "weights";  // the state of that name

// The pieces of tensors that a rank file holds, or memory as such a file would.
struct StoredPieces {
  struct Piece {
    std::string name;                 // see tensor_piece.hpp
    std::vector<std::int64_t> shape;  // as it is stored
    const char* values = nullptr;     // dense f32
  };
  std::string where;  // the file, for errors
  std::vector<Piece> pieces;
  std::shared_ptr<const void> memory;  // of the values
  bool in_memory = false;              // the values are aligned, and reading them takes no disk
};

// Returns a name such as "rank-00003.safetensors".
std::string rank_file_name(int rank);
bool is_rank_file(const std::string& name);
// Returns the rank files of a folder, by name; none if it cannot be read.
std::vector<std::filesystem::path> rank_files(const std::filesystem::path& folder);

// The shapes of states other than the weights.
enum class StateShapes {
  of_weights,  // each state has the shapes of the weights
  own,         // a tensor may lack a state, or have it in another shape, as one piece
};
// Returns the sources of all states that the files hold, by name. Each must have every element of every logical
// tensor of the model exactly once, except frozen tensors (ModelConfig::trained), which have weights alone, or
// nothing where the model has adapters.
// Throws Error(input) that names file and tensor otherwise.
std::map<std::string, std::shared_ptr<const WeightSource>> piecewise_states(const ModelConfig& config,
                                                                            const std::vector<std::filesystem::path>& files,
                                                                            StateShapes shapes = StateShapes::of_weights);
// Does the same with pieces that have been read.
std::map<std::string, std::shared_ptr<const WeightSource>> piecewise_states(
    const ModelConfig& config, const std::vector<std::shared_ptr<const StoredPieces>>& stores,
    StateShapes shapes = StateShapes::of_weights);
// Returns the weights alone, whatever other states the files hold; null if they hold no weights. Throws likewise.
std::shared_ptr<const WeightSource> piecewise_weights(const ModelConfig& config,
                                                      const std::vector<std::filesystem::path>& files);

}  // namespace pipetrain
