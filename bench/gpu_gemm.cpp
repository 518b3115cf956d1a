// Measures which of the GPU library's algorithms is the fastest for the products of the models for which the project promises
// speeds, and prints the table of ops/cuda/gemm/gemm_choice.cpp: the shapes for which it is not the library's first guess.
//
// bench_gpu_gemm [bf16|fp8 [MODEL [TOKENS]]]
// The products of a run in this precision, of models with MODEL in their names, and of microbatches of TOKENS tokens.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "bench/gpu/random_memory.hpp"
#include "bench/result.hpp"
#include "core/error.hpp"
#include "core/parsing.hpp"
#include "model/config/config.hpp"
#include "model/parameters/block_plan.hpp"
#include "ops/gemm_shape.hpp"

using namespace pipetrain;

namespace {

struct Layout {
  std::string model;
  std::int64_t tokens;  // of a microbatch
  int tp;
  std::int64_t rank = 0;  // of adapters of all matrices of layers, which are then frozen; 0: none
};

const Layout layouts[] = {{"llama3-8b", 4096, 1},   {"llama3-8b", 4096, 2},    {"llama2-7b", 4096, 1},
                          {"llama2-7b", 4096, 2},   {"llama2-7b", 4096, 4},    {"llama2-7b", 2048, 4},
                          {"llama3.2-1b", 4096, 1}, {"llama3.2-1b", 16384, 1}, {"llama3.2-1b", 4096, 2},
                          {"gpt2", 16384, 1},       {"gpt2-xl", 8192, 1},      {"qwen3-30b-a3b", 4096, 1},
                          {"qwen3-8b", 4096, 1},    {"qwen2.5-7b", 4096, 1},   {"gpt-oss-20b", 4096, 1},
                          {"olmoe-1b-7b", 4096, 1}, {"llama3-8b", 8192, 1, 16}};

void add(std::vector<GemmShape>& shapes, const GemmShape& shape) {
  if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end()) shapes.push_back(shape);
}

// The products with biases; the GELU adds the bias of the MLP's first matrix itself.
std::vector<GemmShape> gpt2_shapes_of(const Layout& layout) {
  const ModelConfig config = preset_config(layout.model);
  const std::int64_t h = config.hidden, inner = config.intermediate, t = layout.tokens;
  struct Matrix {
    std::int64_t n, k;
    bool bias;
  };
  std::vector<GemmShape> shapes;
  for (const auto& [n, k, bias] : {Matrix{3 * h, h, true}, Matrix{h, h, true}, Matrix{inner, h, false}, Matrix{h, inner, true},
                                   Matrix{whole_vectors(config.vocabulary), h, false}}) {
    add(shapes, {t, n, k, Product::y, DType::bf16, DType::bf16, bias});
    add(shapes, {t, k, n, Product::dx, DType::bf16, DType::bf16});
    add(shapes, {n, k, t, Product::dw, DType::bf16, DType::f32});
  }
  return shapes;
}

// The products of the frozen matrices, to which those of their adapters are added, and of the adapters; the matrices that are
// stacked into one share theirs.
std::vector<GemmShape> adapted_shapes_of(const Layout& layout) {
  const ModelConfig config = preset_config(layout.model);
  const std::int64_t h = config.hidden, t = layout.tokens, heads = config.heads * config.head_dim;
  struct Matrix {
    std::int64_t n, k, modules;  // modules: 0 for the head, which has no adapter
  };
  std::vector<GemmShape> shapes;
  for (const auto& [n, k, modules] :
       {Matrix{(config.heads + 2 * config.kv_heads) * config.head_dim, h, 3}, Matrix{h, heads, 1},
        Matrix{2 * config.intermediate, h, 2}, Matrix{h, config.intermediate, 1}, Matrix{config.vocabulary, h, 0}}) {
    const std::int64_t low = modules * layout.rank;
    add(shapes, {t, n, k, Product::y, DType::bf16, DType::bf16});
    add(shapes, {t, k, n, Product::dx, DType::bf16, DType::bf16});
    if (low == 0) continue;
    add(shapes, {t, low, k, Product::y, DType::bf16, DType::bf16});
    add(shapes, {t, n, low, Product::y, DType::bf16, DType::bf16});
    add(shapes, {t, low, n, Product::dx, DType::bf16, DType::bf16});
    add(shapes, {t, k, low, Product::dx, DType::bf16, DType::bf16});
    add(shapes, {n, low, t, Product::dw, DType::bf16, DType::f32});
    add(shapes, {low, k, t, Product::dw, DType::bf16, DType::f32});
  }
  return shapes;
}

// Tensor parallelism computes the rows of one rank at a time (PiecewiseTransfer), or all of them if a tensor is small.
std::vector<GemmShape> shapes_of(const Layout& layout) {
  const ModelConfig config = preset_config(layout.model);
  if (config.biases.mlp) return gpt2_shapes_of(layout);
  if (layout.rank > 0) return adapted_shapes_of(layout);
  const std::int64_t h = config.hidden, tp = layout.tp, heads = config.heads * config.head_dim / tp;
  std::vector<std::int64_t> columns{(config.heads + 2 * config.kv_heads) * config.head_dim / tp, config.vocabulary / tp};
  std::vector<std::int64_t> inputs{heads};
  if (config.experts.count == 0) {  // grouped products are no products of the GPU library
    columns.insert(columns.begin() + 1, 2 * config.intermediate / tp);
    inputs.push_back(config.intermediate / tp);
  }
  std::vector<GemmShape> shapes;
  for (const std::int64_t rows : {layout.tokens / tp, layout.tokens}) {
    for (const std::int64_t n : columns) {
      add(shapes, {rows, n, h, Product::y, DType::bf16, DType::bf16});
      add(shapes, {rows, h, n, Product::dx, DType::bf16, DType::bf16});
    }
    for (const std::int64_t k : inputs) {
      add(shapes, {rows, h, k, Product::y, DType::bf16, DType::bf16});
      add(shapes, {rows, k, h, Product::dx, DType::bf16, DType::bf16});
    }
  }
  for (const std::int64_t n : columns) add(shapes, {n, h, layout.tokens, Product::dw, DType::bf16, DType::f32});
  for (const std::int64_t k : inputs) {
    add(shapes, {h, k, layout.tokens, Product::dw, DType::bf16, DType::f32});
  }
  return shapes;
}

// The products of the blocks' matrices; every product has its operands in the layout of y.
std::vector<GemmShape> fp8_shapes_of(const Layout& layout) {
  const ModelConfig config = preset_config(layout.model);
  const std::int64_t h = config.hidden, heads = config.heads * config.head_dim, t = layout.tokens;
  struct Matrix {
    std::int64_t n, k;
  };
  std::vector<GemmShape> shapes;
  for (const auto& [n, k] : {Matrix{(config.heads + 2 * config.kv_heads) * config.head_dim, h}, Matrix{h, heads},
                             Matrix{2 * config.intermediate, h}, Matrix{h, config.intermediate}}) {
    add(shapes, {t, n, k, Product::y, DType::e4m3, DType::bf16});
    add(shapes, {t, k, n, Product::y, DType::e5m2, DType::bf16});
    add(shapes, {n, k, t, Product::y, DType::e5m2, DType::f32});
  }
  return shapes;
}

std::size_t bytes_of(const GemmShape& s) {
  return static_cast<std::size_t>(s.m * s.k + s.n * s.k) * size_of(s.in) +
         static_cast<std::size_t>(2 * s.m * s.n) * size_of(s.out) + (std::size_t{1} << 20);
}

// Returns true for a matrix whose output is added to the residual stream (only with biases: the others were measured without),
// or to the product of its adapters.
bool adds_residual(const GemmShape& shape, const Layout& layout) {
  const std::int64_t thin = 3 * layout.rank, vocabulary = preset_config(layout.model).vocabulary;
  const auto is_of_layer = [&](std::int64_t size) { return size > thin && size != vocabulary; };
  return layout.rank > 0 ? is_of_layer(shape.n) && is_of_layer(shape.k) : shape.bias && shape.n <= shape.k;
}

const char* name_of(Product product) { return product == Product::y ? "y" : product == Product::dx ? "dx" : "dw"; }

// Prints the times of the product's algorithms. Returns its row of the table; nothing where the first algorithm is as fast as
// any.
std::string measure(Stream& stream, const GemmShape& shape, bool residual, const Buffer& memory) {
  const std::vector<double> times = time_gemm_algorithms(stream, shape, residual, memory);
  if (times.empty()) return {};
  const auto best = static_cast<std::size_t>(std::min_element(times.begin(), times.end()) - times.begin());
  const double flops = 2.0 * static_cast<double>(shape.m * shape.n * shape.k);
  const char* const product = name_of(shape.product);
  fmt::print(
      stderr,
      "{:>2} {:>6} x {:>6} x {:>6} in {}  first {:8.1f} us {:4.0f} TFLOP/s, best {:8.1f} us {:4.0f} TFLOP/s ({} of {})\n",
      product, shape.m, shape.n, shape.k, to_string(shape.in), times[0], flops / times[0] * 1e-6, times[best],
      flops / times[best] * 1e-6, best, times.size());
  bench::report(
      fmt::format("gpu gemm {} {} x {} x {} in {}: first over best", product, shape.m, shape.n, shape.k, to_string(shape.in)),
      times[0] / times[best], "ratio");
  constexpr double worthwhile = 0.98;  // a smaller gain is noise
  if (times[best] >= worthwhile * times[0]) return {};
  return fmt::format("    {{{{{}, {}, {}, {}, {}, {}{}}}, {}}},\n", shape.m, shape.n, shape.k, product, to_string(shape.in),
                     to_string(shape.out), shape.bias ? ", true" : "", best);
}

// The models whose products are measured.
struct Choice {
  std::string model;        // a part of their names
  std::int64_t tokens = 0;  // of a microbatch; 0: any
};

void run(bool fp8, const Choice& choice) {
  const auto device = make_cuda_device(0);
  const auto stream = device->make_stream("bench");
  std::vector<GemmShape> shapes;
  std::vector<bool> residuals;
  for (const Layout& layout : layouts) {
    if (layout.model.find(choice.model) == std::string::npos) continue;
    if (choice.tokens > 0 && layout.tokens != choice.tokens) continue;
    if (fp8 && (layout.tp > 1 || layout.rank > 0 || preset_config(layout.model).biases.mlp)) continue;
    for (const GemmShape& shape : fp8 ? fp8_shapes_of(layout) : shapes_of(layout)) {
      add(shapes, shape);
      if (residuals.size() < shapes.size()) residuals.push_back(adds_residual(shape, layout));
    }
  }
  std::size_t most = 0;
  for (const GemmShape& shape : shapes) most = std::max(most, bytes_of(shape));
  const Buffer memory = device->allocate(most, "random numbers");
  if (fp8) {
    bench::fill_with_random_fp8(*stream, memory);
  } else {
    bench::fill_with_random_numbers(*stream, memory, 1.0F / 16);
  }
  std::string table;
  for (std::size_t i = 0; i < shapes.size(); ++i) table += measure(*stream, shapes[i], residuals[i], memory);
  fmt::print(stderr, "library version {}\n{}", gemm_library_version(), table);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string products = argc > 1 ? argv[1] : "bf16";
  const auto tokens = argc > 3 ? number_from<std::int64_t>(argv[3]) : std::optional<std::int64_t>(0);
  if (argc > 4 || !tokens || *tokens < 0 || (products != "bf16" && products != "fp8")) {
    fmt::print(stderr, "bench_gpu_gemm: error: takes bf16 or fp8, part of a model's name, and tokens, or nothing\n");
    return exit_status(ErrorKind::input);
  }
  try {
    run(products == "fp8", {argc > 2 ? argv[2] : "", *tokens});
  } catch (const Error& error) {
    fmt::print(stderr, "bench_gpu_gemm: error: {}\n", error.what());
    return exit_status(error.kind());
  }
  return 0;
}
