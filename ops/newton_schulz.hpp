// The iteration X <- a X + (b A + c A^2) X with A = X X^T, which takes a matrix's singular values close to 1, and its
// coefficients, of Jordan et al. 2024 (ops/tensor_update.hpp).
#pragma once

namespace pipetrain {

constexpr int newton_schulz_steps = 5;
constexpr float newton_schulz_a = 3.4445F, newton_schulz_b = -4.7750F, newton_schulz_c = 2.0315F;
// The least norm by which a matrix is divided before the iteration.
constexpr double least_direction_norm = 1e-7;

}  // namespace pipetrain
