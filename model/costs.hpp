// The cost of a model before anything runs: its parameters and floating-point operations, computed from the
// configuration alone.
#pragma once

#include <cstdint>

#include "model/config/config.hpp"
#include "model/config/recompute.hpp"
#include "model/parameters/parameters.hpp"

namespace pipetrain {

// Counts every logical tensor of the block once; a tied head's output matrix is not counted.
std::int64_t block_parameter_count(const ModelConfig& config, const Block& block);
// The same without frozen tensors: those with gradients and optimizer states.
std::int64_t trained_parameter_count(const ModelConfig& config, const Block& block);
// Returns those of them that are of routed experts.
std::int64_t expert_parameter_count(const ModelConfig& config, const Block& block);
std::int64_t trained_parameter_count(const ModelConfig& config);
// Returns the whole model's count: equals the sum of numel over state_dict, with a tied matrix counted once.
std::int64_t parameter_count(const ModelConfig& config);
// Elements of the matrices that each token is multiplied with, a tied head's included, the input embedding and norms not; of
// experts only as many as a token chooses.
std::int64_t matmul_parameter_count(const ModelConfig& config);

// Model FLOPs of forward and backward per token, causal attention counted as half (PaLM, Chowdhery et al. 2022, appendix B,
// with the causal half): 6 x matmul_parameter_count + 6 x layers x hidden x sequence. Of a sequence S a layer with a window W
// counts W (2 - W / S) instead of S, where W is smaller. A frozen matrix counts 4 instead of 6: it has no gradient.
double model_flops_per_token(const ModelConfig& config, std::int64_t sequence);

// Returns one block's share of forward and backward per token, for balancing stages. Attention counts its real width heads x
// head_dim, which is hidden for all but a few models; the embedding counts the elements it moves: cheap, yet not nothing.
double block_flops_per_token(const ModelConfig& config, const Block& block, std::int64_t sequence);

// Returns the part of these FLOPs that makes the gradients of the block's weights, W; none of frozen ones.
double block_weight_grad_flops_per_token(const ModelConfig& config, const Block& block);

// Returns the part of these FLOPs that an attention block spends on scores with queries, keys and values.
double attention_flops_per_token(const ModelConfig& config, const Block& block, std::int64_t sequence);

// FLOPs per token that a block's backward adds by computing parts of its forward again; all of it in B or I,
// none in W. The elementwise passes of `selective` count as nothing. Model FLOPs, and the rates made from them,
// never include it. head_pieces: the number of pieces in which the head takes a microbatch's tokens, its slices
// times Numerics::loss_chunks.
double block_recompute_flops_per_token(const ModelConfig& config, const Block& block, std::int64_t sequence,
                                       Recompute recompute, int head_pieces = 1);

}  // namespace pipetrain
