// Optimizers whose step of a weight depends on the whole tensor: on sums over its rows and columns, on norms, or on products of
// matrices. Each has the settings of one step, an alternative of TensorRule, and its own states. `grad_scale` multiplies the
// gradient first, as in AdamW (ops/update.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <variant>

#include "core/tensor.hpp"

namespace pipetrain {

// Shazeer and Stern 2018, "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost", as torch.optim.Adafactor defines it.
// States of a matrix: the averages of squared gradients over each row and over each column. Of a vector: of each element.
struct Adafactor {
  float lr = 0, beta2_decay = 0, eps = 0, weight_decay = 0;
  float least_scale = 0;     // of the root mean square of the weights, which multiplies the rate (PyTorch: the second eps)
  float clip_threshold = 0;  // of the update's root mean square
  std::int64_t step = 1;     // counts from 1
  float grad_scale = 1;
};

// Luo et al. 2023, "CAME: Confidence-guided Adaptive Memory Efficient Optimization". States: the first moment; and of a matrix
// averages of the squared gradient and of the squared deviation of updates, each over rows and over columns, of a vector those
// of the squared gradient.
struct Came {
  float lr = 0, beta1 = 0, beta2 = 0, beta3 = 0, weight_decay = 0;
  float eps = 0, deviation_eps = 0;  // added to squared gradients, and to squared deviations
  float clip_threshold = 0;          // of the update's root mean square
  float grad_scale = 1;
};

// You et al. 2020, "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes". AdamW's update plus the decay,
// times the norm of the weights divided by its own norm; 1 where one of them is zero. States: the two moments.
struct Lamb {
  float lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  std::int64_t step = 1;
  float grad_scale = 1;
};

// Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks", as torch.optim.Muon defines it: the momentum's
// singular values become about 1, by five Newton-Schulz iterations in fp32, on GPUs in bf16. Of matrices. State: the momentum.
struct Muon {
  float lr = 0, momentum = 0, weight_decay = 0;
  bool nesterov = true;
  float update_scale = 1;  // of the update, for its shape
  float grad_scale = 1;
};

// Zhao et al. 2024, "GaLore: Memory-Efficient LLM Training by Gradient Low-Rank Projection": Adam's step of the gradient that
// is projected on its first singular vectors. Of matrices alone. States: the two moments of the projected gradient, and the
// singular vectors as rows. Each vector's largest component in magnitude is positive.
struct GaLore {
  float lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  float scale = 1;        // of the update
  bool refreshes = true;  // the singular vectors are computed in this step
  bool right = false;     // the vectors have a component for each column of the stored matrix, else for each row
  std::int64_t step = 1;
  float grad_scale = 1;
};

using TensorRule = std::variant<Adafactor, Came, Lamb, Muon, GaLore>;
constexpr std::size_t most_tensor_states = 6;

// A matrix [R, C] or a vector [N], with its gradient, both f32 and dense. The weight and the states change in place.
struct TensorUpdateArgs {
  Tensor weight;
  Tensor grad;
  // The rows of the stored matrix are the columns of the model's. States of rows and columns are the model's.
  bool transposed = false;
  std::array<Tensor, most_tensor_states> states = {};  // in the rule's order; without memory where the tensor has none
  Tensor scratch;                                      // at least tensor_scratch() f32
  TensorRule rule;
};

// Returns the elements of scratch memory that an update of a tensor of this shape takes.
std::size_t tensor_scratch(const TensorRule& rule, const Shape& shape);

}  // namespace pipetrain
