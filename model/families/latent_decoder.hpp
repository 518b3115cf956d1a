// The common part of the families whose attention expands queries, keys and values from latent vectors.
#pragma once

#include <vector>

#include "model/families/family.hpp"

namespace pipetrain {

// Reads the sizes of latent attention; those of the decoder have been read. usual_query_rank: of queries where the key is
// absent; a null says that they have no latent vector. Throws Error(input) naming the key.
void read_latent_attention(const HfConfigReader& config, std::int64_t usual_query_rank, ModelConfig& model);
void write_latent_attention(const ModelConfig& config, Json& text);
// Returns the tensors of an attention block.
std::vector<TensorSpec> latent_attention_tensors(const ModelConfig& config, const Block& block);

}  // namespace pipetrain
