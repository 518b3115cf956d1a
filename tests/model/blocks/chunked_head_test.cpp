// The head and the loss in chunks of the tokens give the same step in less memory.
#include <cmath>

#include "catch.hpp"
#include "model/costs.hpp"
#include "model/direct_step.hpp"

namespace pipetrain::test {
namespace {

// Compares f32 sums that were added in another order.
void check_same(const Result& chunked, const Result& whole) {
  for (std::size_t i = 0; i < whole.losses.size(); ++i) CHECK(chunked.losses[i] == Approx(whole.losses[i]).epsilon(1e-6));
  CHECK(chunked.norm == Approx(whole.norm).epsilon(1e-5));
  for (const auto& [name, values] : whole.grads) {
    double difference = 0, square = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      difference += std::pow(static_cast<double>(chunked.grads.at(name)[i]) - values[i], 2);
      square += std::pow(static_cast<double>(values[i]), 2);
    }
    INFO(name);
    CHECK(std::sqrt(difference) <= 2e-6 * std::sqrt(square));
  }
}

ActivationBytes head_bytes(int loss_chunks) {
  const auto ops = make_measuring_ops();
  return make_stage_model({small_config(), {{{BlockKind::head, 0}}}, {4, 64}, {.loss_chunks = loss_chunks}}, {}, *ops)
      ->activation_bytes(0);
}

}  // namespace

TEST_CASE("a loss in chunks gives losses and gradients of the whole, on every tensor-parallel layout", "[loss_chunks]") {
  const Family family = GENERATE(Family::llama, Family::gpt2);
  for (const auto& [tp, sequence_parallel] : {std::pair{1, false}, {2, false}, {2, true}, {4, true}}) {
    PipelineSetup setup = small_setup(tp, sequence_parallel, family);
    const Result whole = run_step(setup, 3);
    // There are 10 tokens: some of these numbers do not divide them, and one is larger.
    for (const int chunks : {2, 3, 4, 1000}) {
      INFO("tp " << tp << " sequence parallel " << sequence_parallel << ", " << chunks << " chunks");
      setup.loss_chunks = chunks;
      check_same(run_step(setup, 3), whole);
    }
  }
}

TEST_CASE("at equal chunks of the loss, partitions and split backwards give the same bits", "[loss_chunks]") {
  const Family family = GENERATE(Family::llama, Family::gpt2);
  for (const auto& [tp, sequence_parallel] : {std::pair{1, false}, {2, true}}) {
    PipelineSetup setup = small_setup(tp, sequence_parallel, family);
    setup.loss_chunks = 3;
    const Result expected = run_step(setup, 3);
    for (const std::vector<std::size_t>& cuts : {std::vector<std::size_t>{}, {4}, {1, 2, 3, 4, 5, 6, 7}}) {
      setup.stages = {cut_blocks(setup.config, cuts)};
      CHECK(run_step(setup, 3) == expected);
      CHECK(run_step(setup, 3, true) == expected);
      setup.recompute = Recompute::full;
      CHECK(run_step(setup, 3, true) == expected);
      setup.recompute = Recompute::none;
    }
  }
}

TEST_CASE("one chunk of logits exists at a time, unless gradients wait for W", "[loss_chunks]") {
  // 256 tokens, hidden 32, and 40 columns of logits: 37 words and 3 of zeros.
  const ActivationBytes whole = head_bytes(1), chunked = head_bytes(8);
  const std::size_t logits = 256 * 40 * 4, statistics = 256 * 4;
  CHECK(whole.saved >= logits);
  CHECK(chunked.saved == statistics);
  CHECK(chunked.workspace <= whole.workspace + logits / 8 + 2 * 256 * 32 * 4 / 8);
  CHECK(chunked.pending >= logits);
}

TEST_CASE("a head in chunks computes its forward twice", "[loss_chunks]") {
  const ModelConfig config = small_config();
  const Block head{BlockKind::head, 0};
  const double forward = block_flops_per_token(config, head, 16) / 3;
  CHECK(block_recompute_flops_per_token(config, head, 16, Recompute::none, 4) == forward);
  CHECK(block_recompute_flops_per_token(config, head, 16, Recompute::full, 1) == 0);
}

}  // namespace pipetrain::test
