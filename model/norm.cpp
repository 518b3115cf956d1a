#include "model/norm.hpp"

namespace pipetrain {

void Norm::bind(BoundTensors& tensors) {
  weight_ = tensors.next();
  if (kind_ == NormKind::layer) bias_ = tensors.next();
}

Norm::Statistics Norm::allocate_statistics(std::int64_t rows, Arena& memory) const {
  Statistics statistics;
  if (kind_ == NormKind::layer) statistics.mean = memory.allocate({rows}, DType::f32);
  statistics.inv_scale = memory.allocate({rows}, DType::f32);
  return statistics;
}

void Norm::forward(Ops& ops, const Tensor& x, const Tensor& y, const Statistics& statistics) const {
  switch (kind_) {
    case NormKind::rms:
      return ops.rms_norm(x, weight_.weight, eps_, y, statistics.inv_scale);
    case NormKind::layer:
      return ops.layer_norm(x, weight_.weight, bias_.weight, eps_, y, statistics.mean, statistics.inv_scale);
  }
}

void Norm::backward(Ops& ops, const Tensor& dy, const Tensor& x, const Statistics& statistics, const Tensor* residual,
                    const Tensor& dx) const {
  switch (kind_) {
    case NormKind::rms:
      return ops.rms_norm_backward(dy, x, weight_.weight, statistics.inv_scale, residual, dx, weight_.grad);
    case NormKind::layer:
      return ops.layer_norm_backward(dy, x, weight_.weight, statistics.mean, statistics.inv_scale, residual, dx, weight_.grad,
                                     bias_.grad);
  }
}

}  // namespace pipetrain
