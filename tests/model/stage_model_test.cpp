#include "model/stage_model.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>

#include "catch.hpp"
#include "core/cpu_device.hpp"
#include "core/error.hpp"
#include "model/direct_step.hpp"
#include "model/flat_gradients.hpp"
#include "model/weights/named_random_weights.hpp"

namespace pipetrain::test {
namespace {

// Returns the largest difference of two models' tensors, relative to each tensor's largest value.
double distance(const Tensors& a, const Tensors& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (const auto& [name, values] : a) {
    const std::vector<float>& others = b.at(name);
    double largest = 0, difference = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(values[i])));
      difference = std::max(difference, std::abs(static_cast<double>(values[i]) - others[i]));
    }
    const double relative = difference / largest;
    if (!(relative <= worst)) worst = relative;  // NaN stays
  }
  return worst;
}

double total_loss(DirectPipeline& pipeline, const std::vector<Microbatch>& microbatches) {
  double sum = 0;
  for (const Microbatch& microbatch : microbatches) {
    pipeline.forward(0, microbatch);
    sum += pipeline.loss_sum(0);
  }
  return sum;
}

}  // namespace

TEST_CASE("gradients are the derivatives of the loss along random directions", "[stage_model]") {
  // Gemma bends the loss too much for differences in fp32, and OLMo 2, whose residual stream has no other norms, too. Their
  // gradients are those of the reference trajectories.
  const Family family = GENERATE(Family::llama, Family::gpt2, Family::qwen2, Family::qwen3, Family::mistral, Family::smollm3,
                                 Family::granite, Family::phi3);
  const bool drops = GENERATE(false, true);
  for (const bool tied : {false, true}) {
    PipelineSetup setup = small_setup(1, false, family);
    setup.config.tied_embeddings = tied;
    setup.config.rope.scaling = {RopeScaling::Kind::linear, 2};
    if (drops) setup = with_dropout(setup);
    const auto microbatches = random_microbatches(setup.config, setup.shape, 3);
    DirectPipeline pipeline(setup, NamedRandomWeights());
    for (const Microbatch& microbatch : microbatches) {
      pipeline.forward(0, microbatch);
      pipeline.backward(0, 1);
    }
    pipeline.complete_grads();
    std::mt19937 random(3);
    for (const auto& [name, grad] : pipeline.grads()) {
      double norm = 0;
      for (const float value : grad) norm += static_cast<double>(value) * value;
      norm = std::sqrt(norm);
      for (int trial = 0; trial < 4; ++trial) {
        // The first direction is the gradient itself, which tests its size; the others are random and test its direction.
        std::vector<float> direction = grad;
        std::normal_distribution<float> normal(0, static_cast<float>(norm / std::sqrt(static_cast<double>(grad.size()))));
        if (trial > 0) std::generate(direction.begin(), direction.end(), [&] { return normal(random); });
        // The norms of small heads bend the loss more.
        const auto step = static_cast<float>((setup.config.head_norms ? 1.5e-3 : 4e-3) / norm);
        double expected = 0;
        std::vector<float> forth(grad.size()), back(grad.size());
        for (std::size_t i = 0; i < grad.size(); ++i) {
          expected += static_cast<double>(grad[i]) * direction[i];
          forth[i] = step * direction[i];
          back[i] = -2 * forth[i];
        }
        pipeline.shift_weights(name, forth);
        const double above = total_loss(pipeline, microbatches);
        pipeline.shift_weights(name, back);
        const double below = total_loss(pipeline, microbatches);
        pipeline.shift_weights(name, forth);
        const double measured = (above - below) / (2 * static_cast<double>(step));
        INFO(spec_of(family).name << " " << name << " direction " << trial << " tied " << tied << " gradient norm " << norm);
        CHECK(measured == Approx(expected).epsilon(5e-3).margin(5e-3 * norm * norm / std::sqrt(grad.size()) + 2e-3 * norm));
      }
    }
  }
}

TEST_CASE("I then W gives the bits of B", "[stage_model]") {
  const Family family = GENERATE(from_range(every_family));
  for (const auto& [tp, sequence_parallel] : {std::pair{1, false}, {2, false}, {2, true}, {4, true}}) {
    for (const PipelineSetup& setup :
         {small_setup(tp, sequence_parallel, family), isolated(with_dropout(small_setup(tp, sequence_parallel, family)))}) {
      const Result whole = run_step(setup, 3), split = run_step(setup, 3, true);
      CHECK(whole == split);
      CHECK(std::isfinite(whole.norm));
    }
  }
}

TEST_CASE("a head that knows the losses' scale in the forward gives the same bits, in every mode of recomputation",
          "[stage_model]") {
  const Family family = GENERATE(from_range(every_family));
  for (const auto& [tp, sequence_parallel] : {std::pair{1, false}, {2, true}}) {
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
      for (const int chunks : {1, 2}) {
        PipelineSetup setup = small_setup(tp, sequence_parallel, family);
        setup.recompute = recompute;
        setup.loss_chunks = chunks;
        const Result expected = run_step(setup, 3);
        setup.tells_scale = true;
        CHECK(run_step(setup, 3) == expected);
        CHECK(run_step(setup, 3, true) == expected);
      }
    }
  }
}

TEST_CASE("weight gradients may come any time later, in microbatch order", "[stage_model]") {
  PipelineSetup setup = small_setup();
  const Result expected = run_step(setup, 3);
  setup.slots = 3;
  setup.stages = {cut_blocks(setup.config, {3, 6})};
  DirectPipeline pipeline(setup, NamedRandomWeights());
  const auto microbatches = random_microbatches(setup.config, setup.shape, 3);
  for (int i = 0; i < 3; ++i) pipeline.forward(i, microbatches[static_cast<std::size_t>(i)]);
  for (int i = 0; i < 3; ++i) pipeline.input_grad(i, scale);
  for (int i = 0; i < 3; ++i) pipeline.weight_grad(i);
  CHECK(pipeline.grads() == expected.grads);
}

TEST_CASE("no partition into stages and chunks changes a bit", "[stage_model]") {
  const Family family = GENERATE(from_range(every_family));
  for (const auto& [tp, sequence_parallel] : {std::pair{1, false}, {2, false}, {2, true}}) {
    PipelineSetup setup = small_setup(tp, sequence_parallel, family);
    const Result expected = run_step(setup, 2);
    const Chunks single = cut_blocks(setup.config, {1, 2, 3, 4, 5, 6, 7}), half = cut_blocks(setup.config, {4});
    const Chunks third = cut_blocks(setup.config, {3, 6});
    const auto all_in_one = [](const Chunks& chunks) { return std::vector<Chunks>{chunks}; };
    const auto one_each = [](const Chunks& chunks) {
      std::vector<Chunks> stages;
      for (const auto& chunk : chunks) stages.push_back({chunk});
      return stages;
    };
    const std::vector<std::vector<Chunks>> layouts{
        all_in_one(half),
        all_in_one(third),
        all_in_one(single),
        one_each(half),
        one_each(third),
        one_each(single),
        {{third[0], third[2]}, {third[1]}},  // V-shaped
    };
    for (const auto& layout : layouts) {
      setup.stages = layout;
      CHECK(run_step(setup, 2) == expected);
      CHECK(run_step(setup, 2, true) == expected);
    }
  }
}

TEST_CASE("dropout draws the same in every partition, however weights' gradients wait, and others in other samples and steps",
          "[stage_model][dropout]") {
  const Family family = GENERATE(from_range(every_family));
  for (const auto& [tp, sequence_parallel] : {std::pair{1, false}, {2, true}}) {
    PipelineSetup setup = isolated(with_dropout(small_setup(tp, sequence_parallel, family)));
    const Result expected = run_step(setup, 2);
    CHECK(expected.losses != run_step(small_setup(tp, sequence_parallel, family), 2).losses);
    const Chunks third = cut_blocks(setup.config, {3, 6});
    setup.stages = {{third[0], third[2]}, {third[1]}};
    setup.slots = 2;
    CHECK(run_step(setup, 2) == expected);
    CHECK(run_step(setup, 2, true) == expected);
    for (const Recompute mode : {Recompute::selective, Recompute::full}) {
      setup.recompute = mode;
      CHECK(run_step(setup, 2, true) == expected);
    }
  }
  PipelineSetup setup = with_dropout(small_setup(1, false, family));
  DirectPipeline pipeline(setup, NamedRandomWeights());
  Microbatch microbatch = random_microbatches(setup.config, setup.shape, 1).front();
  std::vector<double> losses;
  const DropoutDraws first = *microbatch.draws;
  for (const DropoutDraws& draws : {first, first, DropoutDraws{6, 3, 0}, DropoutDraws{5, 4, 0}, DropoutDraws{5, 3, 1}}) {
    microbatch.draws = draws;
    pipeline.forward(0, microbatch);
    losses.push_back(pipeline.loss_sum(0));
  }
  CHECK(losses[0] == losses[1]);
  for (std::size_t i = 2; i < losses.size(); ++i) CHECK(losses[i] != losses[0]);
  // Without draws nothing is dropped, as with rates of 0.
  microbatch.draws = {};
  pipeline.forward(0, microbatch);
  DirectPipeline plain(small_setup(1, false, family), NamedRandomWeights());
  plain.forward(0, microbatch);
  CHECK(pipeline.loss_sum(0) == plain.loss_sum(0));
}

TEST_CASE("one microbatch of two samples drops what two of one drop", "[stage_model][dropout]") {
  PipelineSetup two = with_dropout(small_setup()), one = two;
  one.shape.batch = 1;
  const Microbatch both = random_microbatches(two.config, two.shape, 1).front();
  DirectPipeline together(two, NamedRandomWeights()), apart(one, NamedRandomWeights());
  together.forward(0, both);
  double sum = 0;
  for (std::ptrdiff_t sample = 0; sample < 2; ++sample) {
    const auto part = [&](const std::vector<std::int32_t>& all) {
      return std::vector<std::int32_t>(all.begin() + sample * 5, all.begin() + (sample + 1) * 5);
    };
    apart.forward(0, {part(both.ids), part(both.targets), DropoutDraws{5, 3, sample}});
    sum += apart.loss_sum(0);
  }
  CHECK(together.loss_sum(0) == Approx(sum).epsilon(2e-6));
}

TEST_CASE("documents that share a sample give the losses and gradients of each alone", "[stage_model][documents]") {
  const Family family = GENERATE(from_range(every_family));
  PipelineSetup setup = small_setup(1, false, family);
  setup.shape = {2, 7};
  const std::vector<std::vector<std::int64_t>> lengths{{3, 1, 3}, {5, 2}};
  Microbatch packed = random_microbatches(setup.config, setup.shape, 1).front();
  std::map<std::int64_t, std::unique_ptr<DirectPipeline>> alone;  // by length
  double sum = 0;
  std::ptrdiff_t at = 0;
  for (const auto& sample : lengths) {
    std::int64_t begin = 0;
    for (const std::int64_t length : sample) {
      packed.documents.insert(packed.documents.end(), static_cast<std::size_t>(length), static_cast<std::int32_t>(begin));
      PipelineSetup one = setup;
      one.shape = {1, length};
      auto& pipeline = alone[length];
      if (!pipeline) pipeline = std::make_unique<DirectPipeline>(one, NamedRandomWeights());
      const auto part = [&](const std::vector<std::int32_t>& all) {
        return std::vector<std::int32_t>(all.begin() + at, all.begin() + at + length);
      };
      pipeline->forward(0, {part(packed.ids), part(packed.targets)});
      sum += pipeline->loss_sum(0);
      pipeline->backward(0, 1);
      begin += length, at += length;
    }
  }
  Tensors expected;
  for (const auto& [length, pipeline] : alone) {
    pipeline->complete_grads();
    for (const auto& [name, grad] : pipeline->grads()) {
      auto& total = expected[name];
      total.resize(grad.size());
      for (std::size_t i = 0; i < grad.size(); ++i) total[i] += grad[i];
    }
  }
  for (const auto& [tp, sequence_parallel] : {std::pair{1, false}, {2, false}, {2, true}}) {
    for (const Recompute mode : {Recompute::none, Recompute::full}) {
      setup.tp = tp, setup.sequence_parallel = sequence_parallel, setup.recompute = mode;
      DirectPipeline pipeline(setup, NamedRandomWeights());
      pipeline.forward(0, packed);
      CHECK(pipeline.loss_sum(0) == Approx(sum).epsilon(2e-6));
      pipeline.backward(0, 1);
      pipeline.complete_grads();
      CHECK(distance(pipeline.grads(), expected) < 2e-5);
    }
  }
}

TEST_CASE("activation slots are used again without a trace", "[stage_model]") {
  PipelineSetup setup = small_setup();
  const Result expected = run_step(setup, 5);
  for (const int slots : {2, 3, 5}) {
    setup.slots = slots;
    CHECK(run_step(setup, 5) == expected);
  }
}

TEST_CASE("tensor parallel ranks compute the model of one rank", "[stage_model]") {
  const Family family = GENERATE(from_range(every_family));
  const bool drops = GENERATE(false, true);
  // 10, 5 and 3 tokens: rows and vocabulary never divide evenly; with 3 tokens one of 4 ranks has no row. 8 ranks hold copies
  // of 4 key-value heads.
  for (const MicrobatchShape shape : {MicrobatchShape{2, 5}, {1, 5}, {1, 3}}) {
    PipelineSetup one = small_setup(1, false, family);
    if (drops) one = isolated(with_dropout(one));
    one.shape = shape;
    const Result expected = run_step(one, 2);
    for (const int tp : {1, 2, 4, 8}) {
      for (const bool sequence_parallel : {false, true}) {
        PipelineSetup setup = small_setup(tp, sequence_parallel, family);
        if (drops) setup = isolated(with_dropout(setup));
        setup.shape = shape;
        const Result result = run_step(setup, 2);
        INFO(spec_of(family).name << " tp " << tp << " sequence parallel " << sequence_parallel << " tokens "
                                  << shape.tokens());
        for (std::size_t i = 0; i < result.losses.size(); ++i) {
          CHECK(result.losses[i] == Approx(expected.losses[i]).epsilon(2e-6));
        }
        CHECK(result.norm == Approx(expected.norm).epsilon(2e-5));
        CHECK(distance(result.grads, expected.grads) < 2e-5);
        if (tp == 1) CHECK(result == expected);
      }
    }
  }
}

TEST_CASE("tied embeddings give the same bits on one stage and on two", "[stage_model]") {
  const Family family = GENERATE(from_range(every_family));
  for (const int tp : {1, 2}) {
    PipelineSetup setup = small_setup(tp, true, family);
    setup.config.tied_embeddings = true;
    const Result expected = run_step(setup, 2);
    CHECK(expected.weights.count("lm_head.weight") == 0);
    const Chunks half = cut_blocks(setup.config, {4}), third = cut_blocks(setup.config, {3, 6});
    setup.stages = {{half[0]}, {half[1]}};
    CHECK(run_step(setup, 2) == expected);
    setup.stages = {{third[0], third[2]}, {third[1]}};
    CHECK(run_step(setup, 2, true) == expected);
  }
}

TEST_CASE("the memory a chunk asks for is tight and known before any device", "[stage_model]") {
  const ModelConfig config = small_config();
  const MicrobatchShape shape{2, 5};
  const auto ops = make_measuring_ops();
  const auto measure = [&](const Chunks& chunks) {
    return make_stage_model({.config = config, .chunks = chunks, .shape = shape}, {}, *ops);
  };
  const auto pair = measure({{{BlockKind::attention, 0}, {BlockKind::mlp, 0}}});
  const auto two_pairs =
      measure({{{BlockKind::attention, 0}, {BlockKind::mlp, 0}, {BlockKind::attention, 1}, {BlockKind::mlp, 1}}});
  const ActivationBytes one = pair->activation_bytes(0), two = two_pairs->activation_bytes(0);
  CHECK(two.workspace == one.workspace);  // does not grow with depth
  const std::size_t hidden = align_up(static_cast<std::size_t>(10 * config.hidden) * 4);
  CHECK(two.saved == 2 * one.saved + hidden);  // the tensor between the pairs

  const auto floats = [](std::int64_t elements) { return align_up(static_cast<std::size_t>(elements) * 4); };
  const std::size_t attention = floats(10) + floats(10 * 32) + floats(10 * 64) + floats(10 * 32) + floats(2 * 8 * 5);
  const std::size_t mlp = floats(10) + floats(10 * 32) + floats(10 * 48) + floats(10 * 24);
  CHECK(one.saved == attention + hidden + mlp);
  // The values that W reads overwrite saved ones.
  CHECK(one.pending == 0);
  CHECK(two.pending == 0);

  const auto both = measure(cut_blocks(config, {1}));
  CHECK(both->workspace_bytes() == std::max(both->activation_bytes(0).workspace, both->activation_bytes(1).workspace));
  CHECK(both->activation_bytes(0).saved == 0);  // the embedding keeps nothing of its own
}

TEST_CASE("a stage keeps a table of rotations on its device where the model rotates, and nothing where positions are learned",
          "[stage_model][rotary]") {
  struct CountingDevice final : CpuDevice {
    CountingDevice() : CpuDevice(0, 1) {}
    Buffer allocate(std::size_t bytes, const std::string& what) override {
      allocated += bytes;
      return CpuDevice::allocate(bytes, what);
    }
    std::size_t allocated = 0;
  };
  const MicrobatchShape shape{2, 5};
  for (const auto& [family, bytes] :
       {std::pair{Family::llama, 5 * 4 * sizeof(float)}, std::pair{Family::gpt2, 0 * sizeof(float)}}) {
    const ModelConfig config = small_config(false, family);
    CountingDevice device;
    const auto stream = device.make_stream("test");
    const auto ops = make_cpu_ops(*stream);
    const auto stage = make_stage_model({.config = config, .chunks = cut_blocks(config, {}), .shape = shape}, {}, *ops);
    std::vector<float> weights(stage->parameters().weight_elements), grads(stage->parameters().grad_elements);
    const auto over = [](std::vector<float>& values) {
      return Tensor{values.data(), {static_cast<std::int64_t>(values.size())}, DType::f32};
    };
    const std::size_t before = device.allocated;
    ResidentParameters parameters(stage->parameters(), over(weights));
    stage->bind(parameters, gradients_in(stage->parameters(), over(grads)));
    CHECK(device.allocated - before == bytes);
  }
}

TEST_CASE("a mixture of number types that is not built is refused") {
  const auto ops = make_measuring_ops();
  StageModelSpec spec{.config = small_config(), .chunks = {blocks_of(small_config())}, .shape = {1, 4}};
  spec.numerics.precision = Precision::bf16();
  CHECK_NOTHROW(make_stage_model(spec, {}, *ops));
  spec.numerics.precision.grad = DType::bf16;
  CHECK_THROWS_AS(make_stage_model(spec, {}, *ops), Error);
}

}  // namespace pipetrain::test
