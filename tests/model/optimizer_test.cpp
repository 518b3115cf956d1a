#include "model/optimizer/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "catch.hpp"
#include "core/device.hpp"
#include "core/error.hpp"
#include "model/optimizer/learning_rate.hpp"
#include "model/parameters/gradient_norm.hpp"
#include "model/parameters/gradient_sums.hpp"

namespace pipetrain::test {
namespace {

ModelConfig tied_config() {
  ModelConfig config;
  config.hidden = 16;
  config.layers = 1;
  config.heads = config.kv_heads = 4;
  config.head_dim = 4;
  config.intermediate = 24;
  config.vocabulary = 19;
  config.tied_embeddings = true;
  return config;
}

// The arenas of one rank on a CPU device: random numbers, and zeros wherever no parameter is.
class Arenas {
 public:
  explicit Arenas(const ParameterLayout& layout) {
    weights = fill(layout.weight_elements, 1);
    grads = fill(layout.grad_elements, 2);
    m = fill(layout.weight_elements, 3);
    v = fill(layout.weight_elements, 4);
    for (float& value : v) value = std::abs(value);
    zero_between_parameters(layout);
    ops->set_workspace(workspace);
  }

  OptimizerArenas view() { return {tensor(weights), tensor(grads), {tensor(m), tensor(v)}, {}}; }
  static Tensor tensor(std::vector<float>& values) {
    return {values.data(), {static_cast<std::int64_t>(values.size())}, DType::f32};
  }
  void synchronize() { stream->synchronize(); }

  std::unique_ptr<Device> device = make_cpu_device(0, 1);
  std::unique_ptr<Stream> stream = device->make_stream("optimizer test");
  std::unique_ptr<Ops> ops = make_cpu_ops(*stream);
  Buffer workspace_memory = device->allocate(1 << 16, "a test");
  Arena workspace{workspace_memory.data(), workspace_memory.bytes(), "workspace"};
  std::vector<float> weights, grads, m, v;

 private:
  static std::vector<float> fill(std::size_t elements, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(elements);
    for (float& value : values) value = normal(random);
    return values;
  }
  void zero_between_parameters(const ParameterLayout& layout) {
    std::vector<bool> of_weight(weights.size()), of_grad(grads.size());
    for (const Parameter& parameter : layout.parameters) {
      for (std::size_t i = 0; i < static_cast<std::size_t>(parameter.local.elements()); ++i) {
        of_weight[parameter.offset + i] = of_grad[parameter.grad_offset + i] = true;
      }
    }
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (!of_weight[i]) weights[i] = m[i] = v[i] = 0;
    }
    for (std::size_t i = 0; i < grads.size(); ++i) {
      if (!of_grad[i]) grads[i] = 0;
    }
  }
};

}  // namespace

TEST_CASE("the norm does not depend on the order its parts come in", "[optimizer]") {
  std::mt19937_64 random(5);
  std::lognormal_distribution<double> size(0, 10);
  std::vector<NormPart> parts;
  for (int i = 0; i < 50; ++i) {
    for (int rank = 0; rank < 4; ++rank) parts.push_back({"layer." + std::to_string(i), rank, size(random)});
  }
  const double norm = global_norm(parts);
  double sum = 0;
  for (const NormPart& part : parts) sum += part.square_sum;
  CHECK(norm == Approx(std::sqrt(sum)));
  for (int trial = 0; trial < 20; ++trial) {
    std::shuffle(parts.begin(), parts.end(), random);
    CHECK(global_norm(parts) == norm);
  }
  CHECK(global_norm({}) == 0);
  CHECK(std::isnan(global_norm({{"a", 0, 1}, {"b", 0, std::numeric_limits<double>::quiet_NaN()}})));
}

TEST_CASE("a slice that is held in parts on block boundaries has the norm of the whole, to the bit", "[optimizer]") {
  const auto device = make_cpu_device(0, 1);
  const auto stream = device->make_stream("norm test");
  const auto ops = make_cpu_ops(*stream);
  Buffer memory = device->allocate(1 << 16, "a test");
  Arena workspace(memory.data(), memory.bytes(), "workspace");
  ops->set_workspace(workspace);
  constexpr std::int64_t block = 65536, elements = 5 * block + 77;
  std::mt19937_64 random(11);
  std::lognormal_distribution<float> size(0, 4);
  std::vector<float> values(elements);
  for (float& value : values) value = size(random);
  const auto sum_of = [&](std::int64_t begin, std::int64_t end) {
    double sum = -1;
    ops->square_sum({values.data() + begin, {end - begin}, DType::f32}, {&sum, {1}, DType::f64});
    stream->synchronize();
    return sum;
  };
  const NormPart other{"b", 0, 1e-3};
  const double whole = global_norm({{"a", 0, sum_of(0, elements)}, {"a", 0, 7, 1}, other});
  std::vector<NormPart> parts = {{"a", 0, 7, 1}, other};
  for (std::int64_t at = 0; at * block < elements; ++at) {
    parts.push_back({"a", 0, sum_of(at * block, std::min(elements, (at + 1) * block)), 0, at});
  }
  for (int trial = 0; trial < 20; ++trial) {
    std::shuffle(parts.begin(), parts.end(), random);
    REQUIRE(global_norm(parts) == whole);
  }
}

TEST_CASE("an unknown optimizer is refused with those there are", "[optimizer]") {
  CHECK_THROWS_WITH(make_optimizer({"adagrad"}), Catch::Contains("no optimizer adagrad") && Catch::Contains("adamw"));
}

TEST_CASE("clipping scales down to the limit and never up", "[optimizer]") {
  CHECK(clip_factor(4, 1) == 0.25F);
  CHECK(clip_factor(0.5, 1) == 1);
  CHECK(clip_factor(1, 1) == 1);
  CHECK(clip_factor(1000, 0) == 1);
  CHECK(clip_factor(0, 1) == 1);
}

TEST_CASE("replicated gradients count on one rank and tied copies never", "[optimizer]") {
  const ModelConfig config = tied_config();
  for (const int rank : {0, 1}) {
    const ParameterLayout layout = layout_parameters(config, {blocks_of(config)}, rank, 2);
    std::size_t norms = 0, matrices = 0;
    for (const std::size_t i : counted_parameters(layout, rank)) {
      CHECK_FALSE(layout.parameters[i].tied_copy);
      (layout.parameters[i].full.rank() == 1 ? norms : matrices) += 1;
    }
    CHECK(norms == (rank == 0 ? 3U : 0U));
    CHECK(matrices == 8U);

    Arenas arenas(layout);
    const auto counted = counted_parameters(layout, rank);
    std::vector<double> sums(counted.size(), -1);
    square_sums(counted_parts(layout, rank), *arenas.ops, Arenas::tensor(arenas.grads),
                {sums.data(), {static_cast<std::int64_t>(sums.size())}, DType::f64});
    arenas.synchronize();
    for (std::size_t i = 0; i < counted.size(); ++i) {
      const Parameter& parameter = layout.parameters[counted[i]];
      double expected = 0;
      for (std::int64_t j = 0; j < parameter.local.elements(); ++j) {
        const double value = arenas.grads[parameter.grad_offset + static_cast<std::size_t>(j)];
        expected += value * value;
      }
      CHECK(sums[i] == Approx(expected).epsilon(1e-12));
    }
  }
}

TEST_CASE("AdamW steps every weight once, decays matrices only, clips first", "[optimizer]") {
  const ModelConfig config = tied_config();
  const ParameterLayout layout = layout_parameters(config, {blocks_of(config)}, 0, 1);
  Arenas arenas(layout);
  const Arenas before(layout);
  const auto adamw = make_optimizer({"adamw", 0.9F, 0.95F, 1e-8F, 0.1F});
  CHECK(adamw->states() == std::vector<std::string>{"exp_avg", "exp_avg_sq"});
  optimizer_step(whole_parts(layout), *arenas.ops, arenas.view(), *adamw, {1e-2F, 3, 0.25F});
  arenas.synchronize();

  std::vector<bool> stepped(layout.weight_elements, false);
  for (const Parameter& parameter : layout.parameters) {
    if (parameter.tied_copy) continue;
    for (std::size_t i = 0; i < static_cast<std::size_t>(parameter.local.elements()); ++i) {
      const std::size_t at = parameter.offset + i;
      stepped[at] = true;
      const double grad = 0.25 * before.grads[parameter.grad_offset + i];
      const double m = 0.9 * before.m[at] + 0.1 * grad, v = 0.95 * before.v[at] + 0.05 * grad * grad;
      const double update = m / (1 - std::pow(0.9, 3)) / (std::sqrt(v / (1 - std::pow(0.95, 3))) + 1e-8);
      const double decay = parameter.full.rank() == 2 ? 0.1 : 0;
      const double expected = before.weights[at] * (1 - 1e-2 * decay) - 1e-2 * update;
      REQUIRE(arenas.weights[at] == Approx(expected).epsilon(1e-5).margin(1e-6));
      REQUIRE(arenas.m[at] == Approx(m).epsilon(1e-5).margin(1e-6));
      REQUIRE(arenas.v[at] == Approx(v).epsilon(1e-5).margin(1e-6));
    }
  }
  for (std::size_t at = 0; at < stepped.size(); ++at) {
    if (!stepped[at]) REQUIRE(arenas.weights[at] == before.weights[at]);
  }
}

// Computes nothing, and records which ranges it was to update.
class RecordingOps final : public Ops {
 public:
  std::vector<std::pair<const void*, std::int64_t>> updated;

  Stream& stream() override { throw std::logic_error("no stream"); }
  void set_workspace(Arena&) override {}
  void run(const Operation& operation) override {
    const UpdateArgs& args = *std::get<const UpdateArgs*>(operation);
    CHECK(args.grad.elements() == args.weight.elements());
    CHECK(args.states[0].elements() == args.weight.elements());
    updated.emplace_back(args.weight.data, args.weight.elements());
  }
};

TEST_CASE("neighbours in every arena that decay alike are stepped as one", "[optimizer]") {
  const ModelConfig config = tied_config();
  Arenas arenas(layout_parameters(config, {blocks_of(config)}, 0, 1));
  const OptimizerArenas view = arenas.view();
  // The third decays, the fifth leaves a hole in one arena, the sixth in none.
  const std::vector<OptimizerPart> parts{{8, 0, 8, 0, 0, false},    {4, 8, 16, 8, 8, false},   {16, 12, 20, 12, 12, true},
                                         {4, 28, 36, 28, 28, true}, {4, 32, 48, 32, 32, true}, {4, 36, 52, 36, 36, true}};
  for (const bool previews : {false, true}) {
    const auto optimizer = make_optimizer({});
    RecordingOps ops;
    previews ? optimizer_preview(parts, ops, view, *optimizer, {}) : optimizer_step(parts, ops, view, *optimizer, {});
    const float* const first = view.weights.as<float>();
    CHECK(ops.updated == std::vector<std::pair<const void*, std::int64_t>>{{first, 12}, {first + 12, 20}, {first + 32, 8}});
  }
}

TEST_CASE("frozen tensors keep their weights and stay out of the norm", "[optimizer]") {
  const ModelConfig config = tied_config();
  ParameterLayout layout = layout_parameters(config, {blocks_of(config)}, 0, 1);
  const auto is_frozen = [](const Parameter& parameter) { return parameter.role == TensorRole::mlp_in_weight; };
  for (Parameter& parameter : layout.parameters) {
    if (is_frozen(parameter)) parameter.group = ParameterGroup::frozen;
  }
  for (const std::size_t i : counted_parameters(layout, 0)) CHECK_FALSE(is_frozen(layout.parameters[i]));

  Arenas arenas(layout);
  const Arenas before(layout);
  const auto adamw = make_optimizer({"adamw", 0.9F, 0.95F, 1e-8F, 0.1F});
  optimizer_step(whole_parts(layout), *arenas.ops, arenas.view(), *adamw, {1e-2F, 3, 0.25F});
  arenas.synchronize();
  for (const Parameter& parameter : layout.parameters) {
    for (std::size_t at = parameter.offset; at < parameter.offset + static_cast<std::size_t>(parameter.local.elements());
         ++at) {
      REQUIRE((arenas.weights[at] == before.weights[at]) == is_frozen(parameter));
      REQUIRE((arenas.m[at] == before.m[at]) == is_frozen(parameter));
    }
  }
}

TEST_CASE("tied gradients are added once, into the embedding's", "[optimizer]") {
  ModelConfig config = tied_config();
  const ParameterLayout layout = layout_parameters(config, {blocks_of(config)}, 0, 1);
  Arenas arenas(layout);
  const Arenas before(layout);
  const TiedGrads tied = tied_grads(layout, config, Arenas::tensor(arenas.grads));
  REQUIRE(tied.has_embedding());
  REQUIRE(tied.has_copy());
  sum_tied_grads(tied, *arenas.ops);
  arenas.synchronize();
  const Parameter& table = layout.parameters.front();
  const Parameter& copy = layout.parameters.back();
  REQUIRE(copy.tied_copy);
  for (std::size_t i = 0; i < static_cast<std::size_t>(table.local.elements()); ++i) {
    REQUIRE(arenas.grads[table.grad_offset + i] == before.grads[table.grad_offset + i] + before.grads[copy.grad_offset + i]);
  }

  config.tied_embeddings = false;
  const ParameterLayout untied = layout_parameters(config, {blocks_of(config)}, 0, 1);
  CHECK_FALSE(tied_grads(untied, config, {nullptr, {1}, DType::f32}).has_embedding());
}

TEST_CASE("learning rates warm up, peak once and come down", "[learning_rate]") {
  using Kind = LearningRate::Kind;
  const LearningRate constant{Kind::constant, 1, 0, 0, 0};
  CHECK(constant.at(1) == 1);
  CHECK(constant.at(1000) == 1);

  const LearningRate cosine{Kind::cosine, 1, 0.1, 3, 13};
  CHECK(cosine.at(1) == Approx(0.25));
  CHECK(cosine.at(3) == Approx(0.75));
  CHECK(cosine.at(4) == Approx(1));
  CHECK(cosine.at(9) == Approx(0.55));  // half of the ten steps after the warm-up are done
  CHECK(cosine.at(13) == Approx(0.1 + 0.9 * (1 + std::cos(std::acos(-1.0) * 0.9)) / 2));
  CHECK(cosine.at(14) == Approx(0.1));
  CHECK(cosine.at(99) == Approx(0.1));
  for (std::int64_t step = 4; step < 14; ++step) CHECK(cosine.at(step + 1) < cosine.at(step));

  const LearningRate linear{Kind::linear, 2, 0, 0, 4};
  CHECK(linear.at(1) == Approx(2));
  CHECK(linear.at(2) == Approx(1.5));
  CHECK(linear.at(4) == Approx(0.5));
  CHECK(linear.at(5) == 0);
}

}  // namespace pipetrain::test
