// The common part of the families that replace the MLP of some layers of a decoder by routed experts.
#pragma once

#include <vector>

#include "model/families/family.hpp"

namespace pipetrain {

inline constexpr ExpertNames usual_expert_names{"mlp.", "gate_proj", "up_proj", "down_proj", "num_experts"};

// Reads the number of experts and of those that a token chooses, and the coefficient of the balancing loss, which is
// usual_balance where the key is absent. Throws Error(input) naming the key.
void read_experts(const HfConfigReader& config, const ExpertNames& names, double usual_balance, ModelConfig& model);
void write_experts(const ModelConfig& config, const ExpertNames& names, Json& text);
// Reads and writes which layers are routed: decoder_sparse_step and mlp_only_layers.
void read_routed_layers(const HfConfigReader& config, ModelConfig& model);
void write_routed_layers(const ModelConfig& config, Json& text);

// Returns the tensors of a block: decoder_tensors(), or those of a routed block with the names of the configuration's family.
std::vector<TensorSpec> routed_decoder_tensors(const ModelConfig& config, const Block& block);

}  // namespace pipetrain
