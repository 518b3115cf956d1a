// GELU in its tanh form (Hendrycks and Gimpel 2016).
#pragma once

#include "ops/cpu/vector_math.hpp"

namespace pipetrain::cpu {

// 0.5 x (1 + tanh(u)) = x sigmoid(2 u), for u = sqrt(2 / pi) (x + 0.044715 x^3).
inline constexpr float gelu_twice_sqrt_2_over_pi = 1.5957691216057308F;
inline constexpr float gelu_cubic = 0.044715F;

inline float gelu_gate(float x) { return sigmoid(gelu_twice_sqrt_2_over_pi * (x + gelu_cubic * x * x * x)); }

// Returns the derivative of x gelu_gate(x), for gate = gelu_gate(x).
inline float gelu_slope(float x, float gate) {
  const float slope = gelu_twice_sqrt_2_over_pi * (1.0F + 3.0F * gelu_cubic * x * x);
  return gate + x * gate * (1.0F - gate) * slope;
}

}  // namespace pipetrain::cpu
