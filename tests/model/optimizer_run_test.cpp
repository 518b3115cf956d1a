// Several steps of a model with its optimizer, compared with the optimizer in plain double precision on the same gradients.
#include <algorithm>
#include <cmath>

#include "catch.hpp"
#include "model/direct_step.hpp"
#include "model/optimizer/learning_rate.hpp"
#include "model/weights/named_random_weights.hpp"

namespace pipetrain::test {
namespace {

// Lion as in Algorithm 2 of Chen et al. 2023, over all tensors by name.
class DoubleLion {
 public:
  DoubleLion(const Tensors& weights, double weight_decay) : weight_decay_(weight_decay) {
    for (const auto& [name, values] : weights) weights_[name].assign(values.begin(), values.end());
  }

  // Weights whose update is so near zero that rounding decides its sign are taken from `found`.
  void step(const Tensors& grads, double lr, double clip, const Tensors& found) {
    for (auto& [name, weights] : weights_) {
      const auto& grad = grads.at(name);
      std::vector<double>& momentum = momentum_[name];
      momentum.resize(weights.size(), 0);
      const bool decays = name.find("norm") == std::string::npos;
      for (std::size_t i = 0; i < weights.size(); ++i) {
        const double g = grad[i] * clip, update = 0.9 * momentum[i] + 0.1 * g;
        momentum[i] = 0.99 * momentum[i] + 0.01 * g;
        const double sign = update > 0 ? 1 : update < 0 ? -1 : 0;
        weights[i] -= lr * (sign + (decays ? weight_decay_ * weights[i] : 0));
        if (update != 0 && std::abs(update) < 1e-6 * std::abs(g)) weights[i] = found.at(name)[i];
      }
    }
  }
  double largest_difference(const Tensors& found) const {
    double largest = 0;
    for (const auto& [name, weights] : weights_)
      for (std::size_t i = 0; i < weights.size(); ++i) largest = std::max(largest, std::abs(weights[i] - found.at(name)[i]));
    return largest;
  }

 private:
  double weight_decay_;
  std::map<std::string, std::vector<double>> weights_, momentum_;
};

TEST_CASE("a model under Lion follows Lion in double precision over ten clipped steps, also over tensor-parallel ranks",
          "[optimizer]") {
  for (const int tp : {1, 2}) {
    INFO("tp " << tp);
    const PipelineSetup setup = small_setup(tp, tp > 1);
    DirectPipeline pipeline(setup, NamedRandomWeights());
    const OptimizerSettings settings = default_settings("lion");
    CHECK(settings.beta1 == 0.9F);
    CHECK(settings.beta2 == 0.99F);
    DoubleLion reference(pipeline.weights(), settings.weight_decay);
    const auto microbatches = random_microbatches(setup.config, setup.shape, 10);
    int clipped = 0;
    for (std::int64_t step = 1; step <= 10; ++step) {
      pipeline.begin_step();
      pipeline.forward(0, microbatches[static_cast<std::size_t>(step - 1)]);
      pipeline.backward(0, scale);
      pipeline.complete_grads();
      const float clip = clip_factor(global_norm(pipeline.norm_parts()), 0.05);
      clipped += clip < 1 ? 1 : 0;
      const Tensors grads = pipeline.grads();
      pipeline.optimize(settings, {.lr = 3e-3F, .step = step, .grad_scale = clip});
      const Tensors found = pipeline.weights();
      reference.step(grads, 3e-3F, clip, found);
      REQUIRE(reference.largest_difference(found) < 2e-6);
    }
    CHECK(clipped > 0);
  }
}

}  // namespace
}  // namespace pipetrain::test
