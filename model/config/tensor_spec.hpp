// TensorSpec is the declaration that a model family makes for each of its tensors, independent of the layout. Everything else
// follows from it: the slice that a rank holds, initial weights, what the optimizer does, parameters and FLOPs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor.hpp"
#include "model/config/block.hpp"

namespace pipetrain {

// The role of a tensor in its block. Tensors of one block with the same role are stacked by rows into one matrix or vector.
enum class TensorRole {
  token_table,       // embedding: one row for each token of the vocabulary
  next_token_table,  // mtp: the same table, which it looks the next tokens up in
  position_table,    // embedding: one row for each position
  norm_weight,       // of the norm that a block begins with
  norm_bias,
  query_norm_weight,  // attention: of the norm over each head's queries, one for all heads, or of that over all heads
  key_norm_weight,
  latent_query_norm_weight,  // latent attention: of the norm of the latent vector of queries, and of that of keys and values
  latent_key_norm_weight,
  next_token_norm_weight,  // mtp: of the norm of the next token's embedding, and of that of the hidden state
  hidden_norm_weight,
  output_norm_weight,  // attention and MLP: of the norm of what is added to the residual stream
  qkv_weight,          // attention: queries, keys and values, in this order
  qkv_bias,
  sink_logits,  // attention: one number for each head, see ModelConfig::sinks
  attention_out_weight,
  attention_out_bias,
  mlp_in_weight,  // gate and up, in this order, or the one matrix of a GELU
  mlp_in_bias,
  mlp_out_weight,
  mlp_out_bias,
  router_bias,        // experts: one number for each expert, added to its logit
  router_correction,  // one number for each expert, see RouterScores::corrected
  expert_in_bias,     // of each expert, gate and up; the experts in order
  expert_out_bias,    // of each expert
  router_weight,      // one row for each expert
  expert_in_weight,   // of each expert, gate and up; the experts in order
  expert_out_weight,  // of each expert
  shared_in_weight,   // of the shared expert, gate and up
  shared_out_weight,
  shared_gate_weight,  // one row, whose product with a token is the logit of the shared expert's gate
  join_weight,         // mtp: from the normed embedding and the normed hidden state, side by side, to the hidden size
  compress_weight,     // latent attention: to the latent vector of queries, and to that of keys and values with rotated columns
  query_expand_weight,      // of each head, from the latent vector of queries, or from the hidden state
  key_value_expand_weight,  // of each head, plain columns of the key, then the value
  output_weight,            // head: one row for each token of the vocabulary, or for each class
  // Adapters (Adapter): the first matrices of all that are added to one of the matrices above, stacked, then the second matrix
  // of each. The second of three, or of two, is that of the matrix's first, second or third tensor.
  qkv_adapter_in,
  qkv_adapter_out_1,
  qkv_adapter_out_2,
  qkv_adapter_out_3,
  attention_out_adapter_in,
  attention_out_adapter_out,
  mlp_in_adapter_in,
  mlp_in_adapter_out_1,
  mlp_in_adapter_out_2,
  mlp_out_adapter_in,
  mlp_out_adapter_out,
  compress_adapter_in,
  compress_adapter_out_1,
  compress_adapter_out_2,
  query_expand_adapter_in,
  query_expand_adapter_out,
  key_value_expand_adapter_in,
  key_value_expand_adapter_out,
  shared_in_adapter_in,
  shared_in_adapter_out_1,
  shared_in_adapter_out_2,
  shared_out_adapter_in,
  shared_out_adapter_out,
  output_adapter_in,
  output_adapter_out,
  expert_in_adapter_in,     // of each expert, those of gate and up; the experts in order
  expert_in_adapter_out_1,  // of each expert
  expert_in_adapter_out_2,
  expert_out_adapter_in,
  expert_out_adapter_out,
  // Adapters with magnitudes: one number for each row of the adapted modules, stacked.
  qkv_magnitude,
  attention_out_magnitude,
  mlp_in_magnitude,
  mlp_out_magnitude,
};

// True when the tensor is multiplied with activations. Then its gradient is a matrix product, which W may compute later.
constexpr bool is_matrix(TensorRole role) {
  return role == TensorRole::qkv_weight || role == TensorRole::attention_out_weight || role == TensorRole::mlp_in_weight ||
         role == TensorRole::mlp_out_weight ||
         (role >= TensorRole::router_weight && role <= TensorRole::expert_out_adapter_out);
}

// True for tables with a row for each token of the vocabulary, for the head's matrix and for the second one of its adapter.
constexpr bool is_of_words(TensorRole role) {
  return role == TensorRole::token_table || role == TensorRole::next_token_table || role == TensorRole::output_weight ||
         role == TensorRole::output_adapter_out;
}

// True for the weights of every norm and for the biases of layer norms.
constexpr bool is_of_norm(TensorRole role) { return role >= TensorRole::norm_weight && role <= TensorRole::output_norm_weight; }

// True for matrices that take nearly all of a block's memory; they may be kept in fewer bits while they are frozen.
constexpr bool is_quantisable(TensorRole role) {
  return role == TensorRole::qkv_weight || role == TensorRole::attention_out_weight || role == TensorRole::mlp_in_weight ||
         role == TensorRole::mlp_out_weight || (role >= TensorRole::expert_in_weight && role <= TensorRole::shared_out_weight);
}

// True for the tensors that adapters add to a model.
constexpr bool is_of_adapter(TensorRole role) { return role >= TensorRole::qkv_adapter_in; }

// How the tensor, as files have it, is spread over the tensor-parallel ranks.
enum class Split { none, rows, columns };

enum class Initialisation {
  normal,           // of ModelConfig::init_std
  residual_normal,  // of matrices that add to the residual stream: init_std / sqrt(2 x layers) (Radford et al. 2019)
  row_norms,        // of the matrix that a magnitude belongs to: the norm of each of its rows
  input_uniform,    // a matrix [outputs, inputs]: uniform between -1 / sqrt(inputs) and 1 / sqrt(inputs)
  ones,
  zeros,
};

// Tensors of one group are stored alike: with the same precision, gradients, optimizer, and replicas that have the same
// weights.
enum class ParameterGroup {
  dense,
  expert,     // trained tensors of experts that ranks divide (ExpertPart); those of others are dense, or adapter
  frozen,     // no gradient, no optimizer: weights that stay as they are
  adapter,    // low-rank matrices that are added to frozen ones (see Adapter), and whatever else is trained with them
  quantised,  // frozen matrices that are kept in ModelConfig::base_form
};
inline constexpr ParameterGroup parameter_groups[] = {ParameterGroup::dense, ParameterGroup::expert, ParameterGroup::frozen,
                                                      ParameterGroup::adapter, ParameterGroup::quantised};
constexpr bool is_trained(ParameterGroup group) {
  return group != ParameterGroup::frozen && group != ParameterGroup::quantised;
}

// `span` neighbours, from the index-th on, of `count` equal parts along the split axis; they are spread over the ranks
// together.
struct TensorPart {
  int index = 0, count = 1, span = 1;
};

struct TensorSpec {
  TensorRole role;
  std::string name;  // Hugging Face's
  Shape shape;       // of the whole, as Hugging Face's files have it
  Split split = Split::none;
  // Indices along the split axis that one rank has together, such as a key head's. Where there are fewer such runs than ranks,
  // several ranks hold copies of one.
  std::int64_t indivisible = 1;
  TensorPart part = {};     // of a tensor that holds several; the parts follow each other in the list
  bool transposed = false;  // files have [inputs, outputs]
  Initialisation initialisation = Initialisation::normal;
  bool decays = true;  // weight decay
  ParameterGroup group = ParameterGroup::dense;
  std::int64_t expert = -1;  // the number of the expert that the tensor belongs to, in its layer; -1: of none
  // True for a tensor that every tensor-parallel rank holds and for which each computes the gradient of its own heads, or of
  // its own columns of the experts.
  bool shared = false;
  bool tied_copy = false;  // a use of the embedding's table by the model's last part, under the table's name

  std::int64_t elements() const { return shape.elements() / part.count * part.span; }
};

// A block's tensors in the order in which they are stored, by the model's family, then those of its adapters. Those of parts
// that are not trained (ModelConfig::trained) are frozen, or quantised if the run keeps frozen matrices in another form.
std::vector<TensorSpec> block_tensors(const ModelConfig& config, const Block& block);

}  // namespace pipetrain
