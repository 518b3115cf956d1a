// The common part of the families that name their tensors and sizes as Llama does: a norm in front of attention and of MLP,
// rotary positions, a gated MLP of SiLU. A family's own file adds what differs.
#pragma once

#include "model/families/family.hpp"

namespace pipetrain {

// Reads sizes, epsilon, ties, dropout and padding. Throws Error(input) naming the key.
void read_decoder(const HfConfigReader& config, ModelConfig& model);
// Writes them, and how queries and keys rotate.
void write_decoder(const ModelConfig& config, Json& text);
// Reads and writes two flags: attention_bias gives all four matrices of attention a bias, mlp_bias those of the MLP.
void read_biases(const HfConfigReader& config, ModelConfig& model);
void write_biases(const ModelConfig& config, Json& text);

}  // namespace pipetrain
