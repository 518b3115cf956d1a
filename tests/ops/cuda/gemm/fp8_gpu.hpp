// Helpers for tests of 8-bit matrices.
#pragma once

#include "core/device_name.hpp"
#include "ops/ops_fixture.hpp"
#include "skip.hpp"

namespace pipetrain::testing {

// Returns null, and skips the case, without a GPU that multiplies in 8 bits.
inline const OpsBackend* gpu_with_fp8() {
  for (const OpsBackend* backend : ops_backends()) {
    if (backend->name() != "cuda") continue;
    if (cuda_multiplies_fp8(0)) return backend;
    test::skip("this GPU does not multiply in 8 bits");
    return nullptr;
  }
  test::needs_gpus(0);
  return nullptr;
}

inline Fp8Operand rows(const Fp8Matrix& matrix) {
  return {matrix.rows, matrix.scales == Fp8Scales::tensor ? matrix.scale : matrix.row_scales, matrix.scales};
}
inline Fp8Operand cols(const Fp8Matrix& matrix) {
  return {matrix.cols, matrix.scales == Fp8Scales::tensor ? matrix.scale : matrix.col_scales, matrix.scales};
}

// The products of a linear layer: forward y = x w^T, and added to `residual`; the input's gradient dx; the weight's dw,
// twice, and added to `old`.
struct LinearProducts {
  Values x, w, dy;       // [t, k], [n, k], [t, n]
  Values residual, old;  // [t, n], [n, k]
  Fp8Matrix qx, qw, qdy;
  Tensor y = {}, sum = {}, dx = {}, dw = {}, other_dw = {}, added_dw = {};  // outputs

  void run(TestTeam& team) {
    TestRank& rank = team[0];
    const Tensor tx = rank.put(x, DType::bf16), tw = rank.put(w, DType::bf16), tdy = rank.put(dy, DType::bf16);
    y = rank.poisoned(dy.shape, DType::bf16), sum = rank.put(residual, DType::bf16);
    dx = rank.poisoned(x.shape, DType::bf16), added_dw = rank.put(old, DType::f32);
    dw = rank.poisoned(w.shape, DType::f32), other_dw = rank.poisoned(w.shape, DType::f32);
    team.run([&](TestRank& r) {
      r.ops().quantise({.x = tx, .out = qx});
      r.ops().quantise({.x = tw, .out = qw});
      r.ops().quantise({.x = tdy, .out = qdy});
      r.ops().fp8_matmul({.a = rows(qx), .b = rows(qw), .out = y});
      r.ops().fp8_matmul({.a = rows(qx), .b = rows(qw), .addend = sum, .out = sum});
      r.ops().fp8_matmul({.a = rows(qdy), .b = cols(qw), .out = dx});
      for (const Tensor& out : {dw, other_dw}) r.ops().fp8_matmul({.a = cols(qdy), .b = cols(qx), .out = out});
      r.ops().fp8_matmul({.a = cols(qdy), .b = cols(qx), .addend = added_dw, .out = added_dw});
    });
  }
};

}  // namespace pipetrain::testing
