#include "model/costs.hpp"

#include <algorithm>

#include "catch.hpp"

namespace pipetrain {
namespace {

TEST_CASE("parameters are counted once, a tied matrix too, and matmul parameters leave the input embedding out") {
  ModelConfig config = preset_config("tiny");  // hidden 128, 4 layers, 8 heads of 16, intermediate 352, vocabulary 256
  const std::int64_t layer = 4 * 128 * 128 + 3 * 128 * 352, table = 256 * 128, norms = 128 * (2 * 4 + 1);
  CHECK(matmul_parameter_count(config) == 4 * layer + table);
  CHECK(parameter_count(config) == 4 * layer + 2 * table + norms);
  config.tied_embeddings = true;
  CHECK(matmul_parameter_count(config) == 4 * layer + table);
  CHECK(parameter_count(config) == 4 * layer + table + norms);
}

TEST_CASE("model FLOPs follow 6 x matmul parameters + 6 x layers x hidden x sequence") {
  // 565 TFLOP/s at 39,151 tokens/s: Llama-3-8B cut to 8 layers, sequence 4096.
  ModelConfig config = preset_config("llama3-8b");
  config.layers = 8;
  CHECK(model_flops_per_token(config, 4096) * 39'151 / 1e12 == Approx(565).epsilon(0.002));
  CHECK(model_flops_per_token(preset_config("llama2-7b"), 4096) * 8'292 / 1e12 == Approx(355).epsilon(0.002));
}

TEST_CASE("frozen matrices cost no gradient of weights, and count for no optimizer") {
  const ModelConfig all = preset_config("tiny");
  ModelConfig head_alone = all;
  head_alone.trained = {.blocks = false, .embeddings = false, .head = true};
  const std::int64_t layers = 4 * (4 * 128 * 128 + 3 * 128 * 352), table = 256 * 128;
  CHECK(trained_parameter_count(all) == parameter_count(all));
  CHECK(trained_parameter_count(head_alone) == table + 128);
  CHECK(parameter_count(head_alone) == parameter_count(all));
  CHECK(model_flops_per_token(all, 64) - model_flops_per_token(head_alone, 64) == 2.0 * static_cast<double>(layers));
  double saved = 0;
  for (const Block& block : blocks_of(all)) {
    saved += block_flops_per_token(all, block, 64) - block_flops_per_token(head_alone, block, 64);
    const bool trains = block.kind == BlockKind::head;
    CHECK((block_weight_grad_flops_per_token(head_alone, block) > 0) == trains);
    CHECK((trained_parameter_count(head_alone, block) > 0) == trains);
  }
  CHECK(saved == 2.0 * static_cast<double>(layers + 128));  // and the embedding's copy
}

TEST_CASE("the blocks' costs add up to the model's, except for the embedding's copy") {
  const ModelConfig config = preset_config("llama2-70b");
  double sum = 0;
  for (const Block& block : blocks_of(config)) sum += block_flops_per_token(config, block, 4096);
  CHECK(sum - 6.0 * 8192 == model_flops_per_token(config, 4096));
}

TEST_CASE("a layer within a window costs what its queries see, and a cut by cost gives such layers more room") {
  ModelConfig config = preset_config("llama2-7b");
  config.window = 1024;
  config.layer_types.resize(32);
  for (std::size_t layer = 0; layer < 16; ++layer) config.layer_types[layer].windowed = true;
  const auto cost = [&](std::int64_t layer, std::int64_t sequence) {
    return attention_flops_per_token(config, {BlockKind::attention, layer}, sequence);
  };
  CHECK(cost(0, 512) == cost(16, 512));
  CHECK(cost(0, 32768) == cost(16, 32768) * 1024 * (2 - 1.0 / 32) / 32768);
  double seen = 0;  // by counting
  for (std::int64_t query = 0; query < 4096; ++query) seen += static_cast<double>(std::min<std::int64_t>(query + 1, 1024));
  CHECK(cost(0, 4096) == Approx(cost(16, 4096) * 2 * seen / 4096 / 4096).epsilon(1e-3));
  const auto halves = partition_blocks(config, 2, 32768);
  CHECK(halves[0].size() > halves[1].size() + 4);
  double sum = 0;
  for (const Block& block : blocks_of(config)) sum += block_flops_per_token(config, block, 32768);
  CHECK(sum - 6.0 * 4096 == Approx(model_flops_per_token(config, 32768)).epsilon(1e-12));
}

TEST_CASE("full recomputation runs all of a layer's forward again but its last matrices; model FLOPs leave it out") {
  const ModelConfig config = preset_config("llama2-7b");  // 32 heads of 128, and equally many key-value heads
  const std::int64_t sequence = 4096;
  const auto extra = [&](BlockKind kind, Recompute mode) {
    return block_recompute_flops_per_token(config, {kind, 0}, sequence, mode);
  };
  const double hidden = 4096, intermediate = 11008;
  CHECK(extra(BlockKind::attention, Recompute::full) ==
        block_flops_per_token(config, {BlockKind::attention, 0}, sequence) / 3 - 2 * hidden * hidden);
  CHECK(extra(BlockKind::mlp, Recompute::full) ==
        block_flops_per_token(config, {BlockKind::mlp, 0}, sequence) / 3 - 2 * hidden * intermediate);
  CHECK(extra(BlockKind::head, Recompute::full) == 0);
  CHECK(extra(BlockKind::embedding, Recompute::full) == 0);
  for (const Recompute mode : {Recompute::none, Recompute::selective}) CHECK(extra(BlockKind::mlp, mode) == 0);
}

}  // namespace
}  // namespace pipetrain
