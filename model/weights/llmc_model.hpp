// Model files of llm.c (github.com/karpathy/llm.c), such as gpt2_124M.bin or model_00019560.bin: GPT-2's weights in fp32 or
// bf16.
//
// A header of 256 i32: 20240326; the version, 3 for fp32 and 5 for bf16; positions, vocabulary, layers, heads, width, and rows
// of the table of tokens, which are more than the vocabulary. Then, without holes, the arrays wte, wpe, ln_1, c_attn,
// attn.c_proj, ln_2, c_fc, mlp.c_proj and ln_f, of each the weights of all layers and then, but for the tables, their biases.
// Matrices are [outputs, inputs], where Hugging Face has [inputs, outputs].
#pragma once

#include <filesystem>
#include <memory>

#include "model/config/config.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {

// Whether the file begins as one. Throws nothing.
bool is_llmc_model(const std::filesystem::path& file);
// Throws Error(input) for another version, and unless the file has exactly the bytes of such a model.
ModelConfig read_llmc_config(const std::filesystem::path& file);
// Of this configuration, which is the file's, or the first layers of it; dropout and classes do not matter. new_head: where the
// head for classes comes from; may be null. Throws Error(input).
std::unique_ptr<WeightSource> llmc_weights(const std::filesystem::path& file, std::unique_ptr<WeightSource> new_head);

}  // namespace pipetrain
