// Recomputing values instead of keeping them gives the same bits in less memory.
#include "model/config/recompute_layers.hpp"

#include "catch.hpp"
#include "model/direct_step.hpp"
#include "model/weights/named_random_weights.hpp"

namespace pipetrain::test {
namespace {

std::size_t floats(std::int64_t elements) { return align_up(static_cast<std::size_t>(elements) * 4); }

// Returns the bytes of one layer of the small model in the middle of a stage, for 2 sequences of 5 tokens.
ActivationBytes layer_bytes(Recompute recompute, const TensorParallel& tp = {}) {
  const auto ops = make_measuring_ops();
  const Chunks chunks{{{BlockKind::attention, 0}, {BlockKind::mlp, 0}}};
  return make_stage_model({small_config(), chunks, {2, 5}, {.recompute = recompute}}, tp, *ops)->activation_bytes(0);
}

}  // namespace

TEST_CASE("recomputing gives the bits of keeping, whole and split, however the blocks are cut", "[recompute]") {
  const Family family = GENERATE(from_range(every_family));
  for (const auto& [tp, sequence_parallel] : {std::pair{1, false}, {2, false}, {2, true}, {4, true}}) {
    PipelineSetup setup = small_setup(tp, sequence_parallel, family);
    const Result expected = run_step(setup, 3);
    for (const Recompute recompute : {Recompute::selective, Recompute::full}) {
      setup.recompute = recompute;
      for (const std::vector<std::size_t>& cuts : {std::vector<std::size_t>{}, {4}, {1, 2, 3, 4, 5, 6, 7}}) {
        INFO("tp " << tp << " sequence parallel " << sequence_parallel << " mode " << static_cast<int>(recompute) << ", "
                   << cuts.size() << " cuts");
        setup.stages = {cut_blocks(setup.config, cuts)};
        CHECK(run_step(setup, 3) == expected);
        CHECK(run_step(setup, 3, true) == expected);
      }
    }
  }
}

TEST_CASE("recomputing works on several microbatches in flight, with weight gradients at the very end", "[recompute]") {
  PipelineSetup setup = small_setup(2, true);
  setup.stages = {cut_blocks(setup.config, {3, 6})};
  const Result expected = run_step(setup, 3);
  setup.slots = 3;
  const auto microbatches = random_microbatches(setup.config, setup.shape, 3);
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    setup.recompute = recompute;
    DirectPipeline pipeline(setup, NamedRandomWeights());
    for (int i = 0; i < 3; ++i) pipeline.forward(i, microbatches[static_cast<std::size_t>(i)]);
    for (int i = 0; i < 3; ++i) pipeline.input_grad(i, scale);
    for (int i = 0; i < 3; ++i) pipeline.weight_grad(i);
    pipeline.complete_grads();
    CHECK(pipeline.grads() == expected.grads);
  }
}

TEST_CASE("recomputing some layers of each chunk gives the bits of keeping", "[recompute]") {
  const Family family = GENERATE(from_range(every_family));
  PipelineSetup setup = small_setup(2, true, family);
  const Result expected = run_step(setup, 3);
  for (const Recompute recompute : {Recompute::selective, Recompute::full}) {
    setup.recompute = recompute;
    for (const std::int64_t layers : {1, 2, 3}) {
      for (const std::vector<std::size_t>& cuts : {std::vector<std::size_t>{}, {4}, {3, 6}}) {
        INFO(layers << " layers, mode " << static_cast<int>(recompute) << ", " << cuts.size() << " cuts");
        setup.recompute_layers = layers;
        setup.stages = {cut_blocks(setup.config, cuts)};
        CHECK(run_step(setup, 3) == expected);
        CHECK(run_step(setup, 3, true) == expected);
      }
    }
  }
}

TEST_CASE("the first recomputing layers of a chunk keep what full keeps, the others what selective keeps", "[recompute]") {
  const auto saved = [](const Numerics& numerics, const std::vector<Block>& chunk) {
    const auto ops = make_measuring_ops();
    return make_stage_model({small_config(), {chunk}, {2, 5}, numerics}, {}, *ops)->activation_bytes(0).saved;
  };
  const auto layers = [](int count) {
    std::vector<Block> chunk;
    for (int layer = 0; layer < count; ++layer)
      for (const BlockKind kind : {BlockKind::attention, BlockKind::mlp}) chunk.push_back({kind, layer});
    return chunk;
  };
  const Numerics none, selective{.recompute = Recompute::selective}, full{.recompute = Recompute::full};
  for (int count = 0; count <= 3; ++count) {
    const auto of = [&](Numerics numerics) {
      numerics.recompute_layers = count;
      return saved(numerics, layers(3));
    };
    // Outputs of blocks lie between the blocks; the last one's is the chunk's.
    const std::size_t between = floats(10 * 32);
    const auto alone = [&](const Numerics& numerics) { return saved(numerics, layers(1)); };
    const auto first = static_cast<std::size_t>(count), others = 3 - first;
    CHECK(of(full) == first * alone(full) + others * alone(selective) + 2 * between);
    CHECK(of(selective) == first * alone(selective) + others * alone(none) + 2 * between);
  }
  // Half a layer at the beginning: one block of each kind recomputes all the same.
  const std::vector<Block> cut{{BlockKind::mlp, 0}, {BlockKind::attention, 1}, {BlockKind::mlp, 1}};
  Numerics one = full;
  one.recompute_layers = 1;
  CHECK(recompute_of_blocks(cut, one) == std::vector{Recompute::full, Recompute::full, Recompute::selective});
  // With slices, attention keeps the values that other slices read.
  CHECK(recompute_of_blocks(cut, full, 2) == std::vector{Recompute::full, Recompute::selective, Recompute::full});
  const std::vector<Block> ends{{BlockKind::embedding, 0}, {BlockKind::attention, 0}, {BlockKind::head, 0}};
  CHECK(recompute_of_blocks(ends, one) == std::vector{Recompute::selective, Recompute::full, Recompute::selective});
}

TEST_CASE("a layer keeps exactly what its mode says", "[recompute]") {
  // 10 tokens, hidden 32, qkv 64, inner 24: selective drops normed and inner; full keeps the MLP's input only.
  const ActivationBytes none = layer_bytes(Recompute::none);
  const ActivationBytes selective = layer_bytes(Recompute::selective), full = layer_bytes(Recompute::full);
  const std::size_t remade = 2 * floats(10 * 32) + floats(10 * 24);
  CHECK(selective.saved == none.saved - remade);
  CHECK(full.saved == floats(10 * 32));
  // From I until W: the inputs of the matrices' gradients must be computed again. The output gradients overwrite the
  // values that F kept, if it kept any.
  CHECK(none.pending == 0);
  CHECK(selective.pending == remade);
  // The norm's statistics of a token are kept with the output of the MLP's first matrix.
  CHECK(full.pending == remade + floats(10 * 32) + floats(10 * 64) + floats(10 * 48) + floats(10));
}

TEST_CASE("selective keeps what was gathered from other ranks, full does not", "[recompute]") {
  struct TwoRanks final : Group {
    int rank() const override { return 0; }
    int size() const override { return 2; }
    void all_gather(Stream&, const Tensor&, const Tensor&, const RowSplit&) override {}
    void reduce_scatter(Stream&, const Tensor&, const Tensor&, const RowSplit&) override {}
    void all_reduce(Stream&, const Tensor&, Reduction) override {}
    void shift(Stream&, const Tensor&, const Tensor&) override {}
    void abort(std::exception_ptr) override {}
  } group;
  const TensorParallel tp{&group, true};
  const ActivationBytes none = layer_bytes(Recompute::none, tp);
  CHECK(layer_bytes(Recompute::selective, tp).saved == none.saved - floats(10 * 12));
  CHECK(layer_bytes(Recompute::full, tp).saved == floats(5 * 32));
}

TEST_CASE("the head keeps its logits in every mode", "[recompute]") {
  const auto ops = make_measuring_ops();
  const auto bytes = [&](Recompute recompute) {
    return make_stage_model({small_config(), {{{BlockKind::head, 0}}}, {2, 5}, {.recompute = recompute}}, {}, *ops)
        ->activation_bytes(0)
        .saved;
  };
  // 37 words, and 3 rows of zeros.
  CHECK(bytes(Recompute::none) == 2 * floats(10) + floats(10 * 32) + floats(10 * 40));
  CHECK(bytes(Recompute::selective) == bytes(Recompute::none) - floats(10 * 32));
  CHECK(bytes(Recompute::full) == bytes(Recompute::selective));
}

}  // namespace pipetrain::test
