#include "model/adamw.hpp"

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
    AdamW own;
    own.lr = step.lr;
    own.beta1 = settings_.beta1;
    own.beta2 = settings_.beta2;
    own.eps = settings_.eps;
    own.weight_decay = tensors.decays ? settings_.weight_decay : 0;
    own.step = step.step;
    own.grad_scale = step.grad_scale;
    const AdamWArgs args{.weight = tensors.weight, .grad = tensors.grad, .m = tensors.states[0], .v = tensors.states[1]};
    if (tensors.rounded.data == nullptr) {
      ops.adamw(args, own);
    } else {
      ops.adamw_rounded(args, own, tensors.rounded);
    }
  }

 private:
  OptimizerSettings settings_;
};

}  // namespace

std::unique_ptr<const Optimizer> make_adamw(const OptimizerSettings& settings) {
  return std::make_unique<AdamWOptimizer>(settings);
}

}  // namespace pipetrain
