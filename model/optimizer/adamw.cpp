#include "model/optimizer/adamw.hpp"

namespace pipetrain {
namespace {

class AdamWOptimizer final : public Optimizer {
 public:
  explicit AdamWOptimizer(const OptimizerSettings& settings) : settings_(settings) {}

  const std::vector<std::string>& states() const override {
    static const std::vector<std::string> names = {"exp_avg", "exp_avg_sq"};
    return names;
  }

  void step(Ops& ops, const OptimizerTensors& tensors, const OptimizerStep& step) const override {
    if (tensors.rounded.data == nullptr) {
      ops.adamw(arguments(tensors), settings(tensors, step));
    } else {
      ops.adamw_rounded(arguments(tensors), settings(tensors, step), tensors.rounded);
    }
  }

  void preview(Ops& ops, const OptimizerTensors& tensors, const OptimizerStep& step) const override {
    ops.adamw_preview(arguments(tensors), settings(tensors, step), tensors.rounded);
  }

 private:
  static AdamWArgs arguments(const OptimizerTensors& tensors) {
    return {.weight = tensors.weight, .grad = tensors.grad, .m = tensors.states[0], .v = tensors.states[1]};
  }

  AdamW settings(const OptimizerTensors& tensors, const OptimizerStep& step) const {
    AdamW own;
    own.lr = step.lr;
    own.beta1 = settings_.beta1;
    own.beta2 = settings_.beta2;
    own.eps = settings_.eps;
    own.weight_decay = tensors.decays ? settings_.weight_decay : 0;
    own.step = step.step;
    own.grad_scale = step.grad_scale;
    return own;
  }

  OptimizerSettings settings_;
};

}  // namespace

std::unique_ptr<const Optimizer> make_adamw(const OptimizerSettings& settings) {
  return std::make_unique<AdamWOptimizer>(settings);
}

}  // namespace pipetrain
