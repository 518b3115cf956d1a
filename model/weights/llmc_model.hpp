// Reads model files of llm.c (github.com/karpathy/llm.c), such as gpt2_124M.bin or model_00019560.bin: GPT-2's
// weights in fp32 or bf16.
//
// The file has a header of 256 i32: 20240326; the version, 3 for fp32 and 5 for bf16; positions, vocabulary,
// layers, heads, width, and rows of the token table, which may be more than the vocabulary. The arrays wte,
// wpe, ln_1, c_attn, attn.c_proj, ln_2, c_fc, mlp.c_proj and ln_f follow without holes, each with the weights
// of all layers and then, except for the tables, their biases. Matrices are [outputs, inputs], where Hugging
// Face has [inputs, outputs].
#pragma once

#include <filesystem>
#include <memory>

#include "model/config/config.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {

// Returns true if the file begins as one. Throws nothing.
bool is_llmc_model(const std::filesystem::path& file);
// Throws Error(input) for another version, or if the file does not have exactly the bytes of such a model.
ModelConfig read_llmc_config(const std::filesystem::path& file);
// Returns the weights for this configuration, which is the file's, or its first layers; dropout and classes do
// not matter. new_head: the source of a classification head; may be null. Throws Error(input).
std::unique_ptr<WeightSource> llmc_weights(const std::filesystem::path& file, std::unique_ptr<WeightSource> new_head);

}  // namespace pipetrain
