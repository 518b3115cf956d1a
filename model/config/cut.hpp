// The places at which the user cuts a model into virtual stages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/config/block.hpp"

namespace pipetrain {

// How many attention and MLP blocks each virtual stage holds, in the order of the model: two blocks a layer. The embedding goes
// with the first of them, the head with the last. Empty: by cost, as partition_blocks() cuts.
using Cut = std::vector<std::int64_t>;

// Returns a text such as "5,7,8,4".
std::string cut_text(const Cut& cut);

// Returns the cut that made these runs of blocks; every run has an attention or MLP block.
Cut cut_of(const std::vector<std::vector<Block>>& parts);

// Returns the model's blocks by virtual stage. Throws Error(input) of the setting "cut" unless there is one number of at least
// 1 for each of `parts` virtual stages, 2 x layers in all.
std::vector<std::vector<Block>> cut_blocks(const ModelConfig& config, const Cut& cut, int parts);

}  // namespace pipetrain
