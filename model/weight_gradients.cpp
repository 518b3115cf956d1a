#include "model/weight_gradients.hpp"

namespace pipetrain {

void compute(Ops& ops, const KeptGradient& gradient) {
  if (gradient.kind == KeptGradient::Kind::matrix) {
    ops.weight_grad(gradient.dy, gradient.x, gradient.dw);
  } else {
    ops.embedding_grad(gradient.x, gradient.dy, gradient.first_id, gradient.dw);
  }
}

void WeightGradients::add_matrix(const Tensor& dy, const Tensor& x, const Tensor& dw) {
  add({KeptGradient::Kind::matrix, dy, x, dw, 0});
}

void WeightGradients::add_embedding(const Tensor& ids, const Tensor& dy, std::int64_t first_id, const Tensor& dtable) {
  add({KeptGradient::Kind::embedding, dy, ids, dtable, first_id});
}

void WeightGradients::add(const KeptGradient& gradient) {
  if (defers()) {
    kept_->push_back(gradient);
  } else {
    compute(ops_, gradient);
  }
}

}  // namespace pipetrain
