// Matrix products, in bf16 and in fp8, and the conversion to fp8.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "bench/gpu_ops/op_rates.hpp"
#include "bench/gpu_ops/op_rows.hpp"
#include "core/device_name.hpp"
#include "model/blocks/fp8_memory.hpp"

namespace pipetrain::bench {
namespace {

// One read, two layouts written; unless the largest magnitude is measured already, another read before.
void measure_quantisation(OpRates& rates, std::int64_t rows, std::int64_t cols) {
  const double bytes = static_cast<double>(rows * cols);
  const std::string size = fmt::format(" {} x {}", rows, cols);
  const auto make_set = [&] {
    return std::vector<Tensor>{rates.make({rows, cols}, DType::bf16), rates.make({rows, cols}, DType::e4m3),
                               rates.make({cols, rows}, DType::e4m3), rates.make({2}, DType::f32)};
  };
  for (const bool measured : {true, false}) {
    rates.with_sets((measured ? "quantise, measured," : "quantise") + size, (measured ? 4 : 6) * bytes, make_set, [&](auto& t) {
      rates.ops().quantise({.x = t[0], .out = {t[1], t[2], t[3]}, .measured = measured});
    });
  }
}

// With scales of tiles or blocks, which it finds in the same pass.
void measure_blocks(OpRates& rates, std::int64_t rows, std::int64_t cols) {
  const double bytes = static_cast<double>(rows * cols);
  for (const Fp8Scales scales : {Fp8Scales::tiles, Fp8Scales::blocks}) {
    const char* kind = scales == Fp8Scales::tiles ? "tiles" : "blocks";
    const auto make_set = [&] {
      const Fp8Matrix to = rates.bench().make_fp8({rows, cols}, DType::e4m3, scales);
      return std::vector<Tensor>{rates.make({rows, cols}, DType::bf16), to.rows, to.cols, to.row_scales, to.col_scales};
    };
    rates.with_sets(fmt::format("quantise, {}, {} x {}", kind, rows, cols), 4 * bytes, make_set, [&](auto& t) {
      rates.ops().quantise(
          {.x = t[0], .out = {.rows = t[1], .cols = t[2], .scales = scales, .row_scales = t[3], .col_scales = t[4]}});
    });
  }
}

// Measures the products of a block's matrix in fp8, with quantised random numbers.
void measure_fp8_products(OpRates& rates, std::int64_t tokens, const char* name, std::int64_t n, std::int64_t k, bool blocks) {
  const auto quantised = [&](const Shape& shape, DType type, Fp8Scales scales) {
    const Fp8Matrix matrix =
        blocks ? rates.bench().make_fp8(shape, DType::e4m3, scales) : rates.bench().make_fp8(shape, type, Fp8Scales::tensor);
    rates.ops().quantise({.x = rates.make(shape, DType::bf16), .out = matrix});
    return matrix;
  };
  const Fp8Matrix x = quantised({tokens, k}, DType::e4m3, Fp8Scales::tiles);
  const Fp8Matrix w = quantised({n, k}, DType::e4m3, Fp8Scales::blocks);
  const Fp8Matrix dy = quantised({tokens, n}, DType::e5m2, Fp8Scales::tiles);
  const Tensor y = rates.make({tokens, n}, DType::bf16), dx = rates.make({tokens, k}, DType::bf16),
               dw = rates.make({n, k}, DType::f32);
  const double flops = 2.0 * static_cast<double>(tokens * n * k);
  const std::string size = fmt::format(" in fp8{} {} ({} x {} x {})", blocks ? " blockwise" : "", name, tokens, n, k);
  rates.report_flops("forward" + size, flops, [&] { rates.ops().fp8_matmul({.a = rows_of(x), .b = rows_of(w), .out = y}); });
  rates.report_flops("input_grad" + size, flops,
                     [&] { rates.ops().fp8_matmul({.a = rows_of(dy), .b = cols_of(w), .out = dx}); });
  rates.report_flops("weight_grad" + size, flops,
                     [&] { rates.ops().fp8_matmul({.a = cols_of(dy), .b = cols_of(x), .addend = dw, .out = dw}); });
  rates.bench().free_all();
}

}  // namespace

void measure_matrices(OpRates& rates, std::int64_t tokens) {
  struct Matrix {
    const char* name;
    std::int64_t n, k;
  };
  for (const auto& [name, n, k] :
       {Matrix{"o 7b", 4096, 4096}, Matrix{"qkv 7b", 12288, 4096}, Matrix{"qkv 8b", 6144, 4096},
        Matrix{"gate_up 7b", 22016, 4096}, Matrix{"down 7b", 4096, 11008}, Matrix{"gate_up 8b", 28672, 4096},
        Matrix{"down 8b", 4096, 14336}, Matrix{"head 8b", 128256, 4096}, Matrix{"qkv tp4", 3072, 4096},
        Matrix{"gate_up tp4", 5504, 4096}, Matrix{"down tp4", 4096, 2752}}) {
    const Tensor x = rates.make({tokens, k}, DType::bf16), w = rates.make({n, k}, DType::bf16),
                 y = rates.make({tokens, n}, DType::bf16);
    const Tensor dw = rates.make({n, k}, DType::f32);
    const double flops = 2.0 * static_cast<double>(tokens * n * k);
    const std::string size = fmt::format(" {} ({} x {} x {})", name, tokens, n, k);
    rates.report_flops("forward" + size, flops,
                       [&] { rates.ops().matmul_scatter({.kind = MatmulKind::forward, .in = x, .w = w, .out = y}); });
    rates.report_flops("forward + residual" + size, flops, [&] {
      rates.ops().matmul_scatter({.kind = MatmulKind::forward, .in = x, .w = w, .residual = y, .out = y});
    });
    rates.bench().fill(y);  // sums of sums would grow
    rates.report_flops("input_grad" + size, flops,
                       [&] { rates.ops().matmul_scatter({.kind = MatmulKind::input_grad, .in = y, .w = w, .out = x}); });
    rates.report_flops("weight_grad" + size, flops, [&] { rates.ops().weight_grad({.dy = y, .x = x, .dw = dw}); });
    rates.bench().free_all();
  }
}

void measure_fp8(OpRates& rates, std::int64_t tokens) {
  if (!cuda_multiplies_fp8(0)) return;
  for (const std::int64_t cols : {4096, 6144, 14336, 28672}) {
    measure_quantisation(rates, tokens, cols);
    measure_blocks(rates, tokens, cols);
  }
  struct Matrix {
    const char* name;
    std::int64_t n, k;
  };
  for (const auto& [name, n, k] :
       {Matrix{"qkv 8b", 6144, 4096}, Matrix{"o", 4096, 4096}, Matrix{"gate_up 8b", 28672, 4096},
        Matrix{"down 8b", 4096, 14336}, Matrix{"gate_up 7b", 22016, 4096}, Matrix{"down 7b", 4096, 11008}})
    for (const bool blocks : {false, true}) measure_fp8_products(rates, tokens, name, n, k, blocks);
}

}  // namespace pipetrain::bench
