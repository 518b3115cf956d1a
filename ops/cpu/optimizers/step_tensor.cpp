#include "ops/cpu/kernels.hpp"
#include "ops/cpu/optimizers/tensor_rules.hpp"

namespace pipetrain::cpu {

void tensor_update(CpuStream& stream, const TensorUpdateArgs& args) {
  std::visit([&](const auto& rule) { step_tensor(stream, args, rule); }, args.rule);
}

}  // namespace pipetrain::cpu
