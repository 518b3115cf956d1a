// The arguments of activations, biases, scaling and dropout. `largest` as in ops/arguments/norms.hpp.
#pragma once

#include <cstdint>
#include <optional>

#include "core/tensor.hpp"
#include "ops/dropout.hpp"

namespace pipetrain {

// The activation of a gated MLP's gate.
enum class GateKind { silu, gelu, clamped };  // gelu in its tanh form

// With GateKind::clamped: y = (u + 1) g sigmoid(alpha g), where g = min(gate, limit), and u is `up` between
// -limit and limit.
struct GateClamps {
  float alpha = 1, limit = 0;
};

struct SwigluArgs {
  Tensor gate_up;                      // [T, 2I]
  Tensor y;                            // [T, I], output
  std::optional<Tensor> largest = {};  // of y
  GateKind gate = GateKind::silu;
  Tensor used = {};  // [1] i32: see ops/arguments/experts.hpp; without a shape: all rows
  GateClamps clamps = {};
  // [T] f32: a factor of each row of y, with the bits of weigh_rows() after swiglu(); without a shape: 1
  Tensor weights = {};
};

struct SwigluBackwardArgs {
  Tensor dy;                           // [T, I]
  Tensor gate_up;                      // [T, 2I], the forward's
  Tensor dgate_up;                     // [T, 2I], output; may be gate_up's memory
  std::optional<Tensor> largest = {};  // of dgate_up
  GateKind gate = GateKind::silu;
  Tensor used = {};  // as in SwigluArgs
  GateClamps clamps = {};
};

struct GeluArgs {
  Tensor x;     // [T, I], the matrix's output without bias
  Tensor bias;  // [I]
  Tensor y;     // [T, I], output
};

struct GeluBackwardArgs {
  Tensor dy;     // [T, I]
  Tensor x;      // [T, I], the matrix's output without bias
  Tensor bias;   // [I]
  Tensor dx;     // [T, I], output; may be x's memory
  Tensor dbias;  // [I] f32 += column sums of dx
};

struct ScaleArgs {
  Tensor x;    // [Tr, H]
  Tensor out;  // [Tr, H], output; may be x's memory
  float factor = 1;
  bool exact = false;                   // the factor is not rounded to x's type
  std::optional<Tensor> residual = {};  // [Tr, H], added before the one rounding
};

struct SigmoidArgs {
  Tensor x;  // [N] f32
  Tensor y;  // [N] f32, output; may be x's memory
};

struct SigmoidBackwardArgs {
  Tensor dy;  // [N] f32
  Tensor y;   // [N] f32, the forward's
  Tensor dx;  // [N] f32, output; may be dy's memory
};

struct AddBiasArgs {
  Tensor x;     // [T, N] +=
  Tensor bias;  // [N]
};

struct BiasGradArgs {
  Tensor dy;     // [T, N]
  Tensor dbias;  // [N] f32 +=
};

struct DropoutArgs {
  Tensor x;                             // [Tr, H], tokens first_token, first_token + 1, ... of the microbatch
  std::optional<Tensor> residual = {};  // [Tr, H], added before the one rounding; may be out's memory
  Tensor out;                           // [Tr, H], output; may be x's memory
  std::int64_t first_token = 0, sequence = 1;
  Dropout dropout;                // must be active
  std::int64_t first_column = 0;  // of x's columns, counted in the logical tensor
};

}  // namespace pipetrain
