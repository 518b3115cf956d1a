// The arithmetic of optimizers' rules on the CPU: see ops/update.hpp.
#pragma once

#include <cmath>

namespace pipetrain::cpu {

struct HostMath {
  static float root(float value) { return std::sqrt(value); }
  static float weighted_sum(float a, float x, float b, float y) { return a * x + b * y; }
  static float mean_square(float beta, float mean, float value) { return beta * mean + (1.0F - beta) * value * value; }
  static float scaled_quotient(float factor, float dividend, float divisor) { return factor * dividend / divisor; }
};

}  // namespace pipetrain::cpu
