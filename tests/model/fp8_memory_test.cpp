// The memory of a stage in fp8, computed without a device: the formulas of docs/memory.md.
#include "catch.hpp"
#include "comm/inproc/inprocess_group.hpp"
#include "core/buffer.hpp"
#include "model/stage_model.hpp"

namespace pipetrain::test {
namespace {

// All sizes are multiples of the tensors' alignment, so that formulas hold to the byte.
ModelConfig even_config() {
  ModelConfig config;
  config.hidden = 256;
  config.layers = 3;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 64;
  config.intermediate = 512;
  config.vocabulary = 256;
  config.max_positions = 64;
  return config;
}

constexpr MicrobatchShape shape{.batch = 2, .sequence = 64};
// The matrices of one layer: qkv, attention's output, gate and up, down.
constexpr std::size_t matrix_elements = 256 * 512 + 256 * 256 + 256 * 1024 + 512 * 256;
constexpr std::size_t scale_bytes = tensor_alignment;  // two numbers

struct Measured {
  ActivationBytes activations;
  std::size_t weights;
};

// The base is frozen, and every matrix of attention and MLP has an adapter.
ModelConfig adapted_config(bool magnitudes) {
  ModelConfig config = even_config();
  config.adapter = {.rank = 16, .alpha = 32, .magnitudes = magnitudes};
  config.trained = {false, false, false};
  return config;
}

Measured measured(const ModelConfig& config, const Numerics& numerics, const TensorParallel& tp = {},
                  bool gathers_weights = false) {
  const auto ops = make_measuring_ops();
  const StageModelSpec spec{.config = config,
                            .chunks = {blocks_of(config)},
                            .shape = shape,
                            .numerics = numerics,
                            .gathers_weights = gathers_weights};
  const auto model = make_stage_model(spec, tp, *ops);
  return {model->activation_bytes(0), model->fp8_weight_bytes()};
}

Measured measured(const Numerics& numerics, const TensorParallel& tp = {}, bool gathers_weights = false) {
  return measured(even_config(), numerics, tp, gathers_weights);
}

}  // namespace

TEST_CASE("in fp8 a stage holds its blocks' matrices in two more layouts, and less of a microbatch") {
  Numerics bf16{.precision = Precision::bf16()}, fp8{.precision = Precision::fp8()};
  const auto tokens = static_cast<std::size_t>(shape.tokens());
  CHECK(measured(bf16).weights == 0);
  CHECK(measured(fp8).weights == 3 * (2 * matrix_elements + 4 * scale_bytes));
  // Both norms' outputs and the MLP's inner columns take a byte less, the heads a byte more.
  constexpr std::size_t less = 2 * 256 + 512 - 4 * 64;
  CHECK(measured(bf16).activations.saved - measured(fp8).activations.saved == 3 * (tokens * less - 4 * scale_bytes));

  // Values that elementwise passes or a whole forward compute again are absent in both.
  for (const Recompute mode : {Recompute::selective, Recompute::full}) {
    bf16.recompute = fp8.recompute = mode;
    CHECK(measured(bf16).activations.saved == measured(fp8).activations.saved);
  }
}

TEST_CASE("in fp8 a tensor-parallel rank holds its part of the matrices, and the norms' gathered outputs in 8 bits") {
  const auto groups = make_inprocess_groups(2);
  const Numerics bf16{.precision = Precision::bf16()}, fp8{.precision = Precision::fp8()};
  const auto tokens = static_cast<std::size_t>(shape.tokens());
  for (const bool sequence_parallel : {true, false}) {
    const TensorParallel tp{groups.front().get(), sequence_parallel};
    CHECK(measured(fp8, tp).weights == 3 * (matrix_elements + 4 * scale_bytes));
    constexpr std::size_t less = 2 * 256 + 512 / 2 - 4 * 64 / 2;
    CHECK(measured(bf16, tp).activations.saved - measured(fp8, tp).activations.saved == 3 * (tokens * less - 4 * scale_bytes));
    // Gathered values are kept if elementwise passes run again, as in bf16.
    const auto selective = [&](Numerics numerics) {
      numerics.recompute = Recompute::selective;
      return measured(numerics, tp).activations.saved;
    };
    const std::size_t kept_less = sequence_parallel ? 3 * 2 * (tokens * 256 - scale_bytes) : 0;
    CHECK(selective(bf16) - selective(fp8) == kept_less);
  }
}

TEST_CASE("with scales of tiles and blocks a stage also holds the scales of each layout") {
  const Numerics bf16{.precision = Precision::bf16()}, blocks{.precision = Precision::fp8_of_blocks()};
  const auto tokens = static_cast<std::size_t>(shape.tokens());
  // Each layout has a scale for 128 x 128 weights, in rows of a multiple of 4: qkv, attention's output, gate and up, down.
  const auto block_bytes = [](std::size_t rows, std::size_t cols) {
    const auto of = [](std::size_t r, std::size_t c) {
      return align_up(4 * ((r + 127) / 128) * (((c + 127) / 128 + 3) / 4 * 4));
    };
    return of(rows, cols) + of(cols, rows);
  };
  const std::size_t scales = block_bytes(512, 256) + block_bytes(256, 256) + block_bytes(1024, 256) + block_bytes(256, 512);
  CHECK(measured(blocks).weights == 3 * (2 * matrix_elements + scales));
  // Kept for W: the columns of both norms' outputs, of the heads and of the MLP's inner ones, with a scale for 128
  // tokens of each.
  constexpr std::size_t less = 2 * 256 + 512 - 4 * 64, columns = 2 * 256 + 4 * 64 + 512;
  CHECK(measured(bf16).activations.saved - measured(blocks).activations.saved ==
        3 * (tokens * less - 4 * columns * (tokens / 128)));
}

TEST_CASE("blocks whose weights are gathered for each use take turns in 8 bits") {
  const std::size_t mlp = 256 * 1024 + 512 * 256;
  CHECK(measured({.precision = Precision::fp8()}, {}, true).weights == 2 * mlp + 2 * scale_bytes);
}

TEST_CASE("in fp8 a stage holds its experts' matrices in two more layouts, but not the routers, and keeps the rows in bf16") {
  ModelConfig config = even_config();
  for (const std::int64_t shared : {0, 128}) {
    config.family = shared > 0 ? Family::qwen2_moe : Family::mixtral;
    config.experts = {.count = 8, .chosen = 2, .intermediate = 128, .shared_intermediate = shared, .shared_gate = shared > 0};
    const std::size_t of_layer = 256 * 512 + 256 * 256 + (8 * 128 + static_cast<std::size_t>(shared)) * 3 * 256,
                      matrices = shared > 0 ? 6 : 4;
    INFO("a shared expert of " << shared << " columns");
    const Measured in_8_bits = measured(config, {.precision = Precision::fp8()}),
                   plain = measured(config, {.precision = Precision::bf16()});
    CHECK(in_8_bits.weights == 3 * (2 * of_layer + matrices * scale_bytes));
    CHECK(plain.weights == 0);
    // Those of attention are left out, whose rounded inputs take as much as its plain ones here.
    CHECK(in_8_bits.activations.saved - plain.activations.saved == 3 * 2 * scale_bytes);
  }
}

TEST_CASE("layers that stay in bf16 take what they take there") {
  Numerics numerics{.precision = Precision::fp8(), .bf16_layers = {.at_start = 1, .at_end = 1}};
  CHECK(measured(numerics).weights == 2 * matrix_elements + 4 * scale_bytes);
  numerics.bf16_layers = {.at_start = 0, .at_end = 3};
  CHECK(measured(numerics).weights == 0);
  CHECK(measured(numerics).activations.saved == measured({.precision = Precision::bf16()}).activations.saved);
}

TEST_CASE("frozen matrices in 8 bits are held in both layouts, and a microbatch beside adapters keeps what it keeps in bf16") {
  const auto groups = make_inprocess_groups(2);
  for (const int ranks : {1, 2}) {
    const TensorParallel tp = ranks == 1 ? TensorParallel{} : TensorParallel{groups.front().get(), false};
    for (const bool magnitudes : {false, true}) {
      for (const Recompute mode : {Recompute::none, Recompute::selective, Recompute::full}) {
        Numerics bf16{.precision = Precision::bf16(), .recompute = mode}, fp8{.precision = Precision::fp8(), .recompute = mode};
        const Measured plain = measured(adapted_config(magnitudes), bf16, tp),
                       in_8_bits = measured(adapted_config(magnitudes), fp8, tp);
        INFO("tp " << ranks << ", magnitudes " << magnitudes << ", recompute " << static_cast<int>(mode));
        CHECK(in_8_bits.weights == 3 * (2 * matrix_elements / ranks + 4 * scale_bytes));
        // The scale of the MLP's inner columns is kept beside them.
        CHECK(in_8_bits.activations.saved - plain.activations.saved == (mode == Recompute::none ? 3 * scale_bytes : 0));
        CHECK(in_8_bits.activations.pending >= plain.activations.pending);
      }
    }
  }
}

}  // namespace pipetrain::test
