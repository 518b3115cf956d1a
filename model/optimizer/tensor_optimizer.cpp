#include "model/optimizer/tensor_optimizer.hpp"

#include <algorithm>
#include <cmath>

namespace pipetrain {
namespace {

const Shape no_state{0};

float decay_of(const OptimizerSettings& settings, const SteppedTensor& tensor) {
  return tensor.decays ? settings.weight_decay : 0;
}

// --- Adafactor: row_var, col_var, variance ---

std::vector<Shape> adafactor_states(const OptimizerSettings&, const SteppedTensor& tensor) {
  if (!tensor.is_matrix()) return {no_state, no_state, tensor.shape};
  return {{tensor.shape[0]}, {tensor.shape[1]}, no_state};
}

std::optional<TensorRule> adafactor_rule(const OptimizerSettings& settings, const OptimizerStep& step,
                                         const SteppedTensor& tensor) {
  return Adafactor{.lr = step.lr,
                   .beta2_decay = settings.beta2_decay,
                   .eps = settings.eps,
                   .weight_decay = decay_of(settings, tensor),
                   .least_scale = settings.eps2,
                   .clip_threshold = settings.clip_threshold,
                   .step = step.step,
                   .grad_scale = step.grad_scale};
}

// --- CAME: exp_avg, exp_avg_sq, exp_avg_sq_row, exp_avg_sq_col, exp_avg_res_row, exp_avg_res_col ---

std::vector<Shape> came_states(const OptimizerSettings&, const SteppedTensor& tensor) {
  if (!tensor.is_matrix()) return {tensor.shape, tensor.shape, no_state, no_state, no_state, no_state};
  const Shape rows{tensor.shape[0]}, columns{tensor.shape[1]};
  return {tensor.shape, no_state, rows, columns, rows, columns};
}

std::optional<TensorRule> came_rule(const OptimizerSettings& settings, const OptimizerStep& step, const SteppedTensor& tensor) {
  return Came{.lr = step.lr,
              .beta1 = settings.beta1,
              .beta2 = settings.beta2,
              .beta3 = settings.beta3,
              .weight_decay = decay_of(settings, tensor),
              .eps = settings.eps,
              .deviation_eps = settings.eps2,
              .clip_threshold = settings.clip_threshold,
              .grad_scale = step.grad_scale};
}

// --- LAMB: exp_avg, exp_avg_sq ---

std::vector<Shape> lamb_states(const OptimizerSettings&, const SteppedTensor& tensor) { return {tensor.shape, tensor.shape}; }

std::optional<TensorRule> lamb_rule(const OptimizerSettings& settings, const OptimizerStep& step, const SteppedTensor& tensor) {
  return Lamb{.lr = step.lr,
              .beta1 = settings.beta1,
              .beta2 = settings.beta2,
              .eps = settings.eps,
              .weight_decay = decay_of(settings, tensor),
              .step = step.step,
              .grad_scale = step.grad_scale};
}

// --- Muon: momentum_buffer; AdamW's exp_avg and exp_avg_sq of other tensors ---

std::vector<Shape> muon_states(const OptimizerSettings&, const SteppedTensor& tensor) {
  if (tensor.is_hidden) return {tensor.shape, no_state, no_state};
  return {no_state, tensor.shape, tensor.shape};
}

float muon_scale(MuonRate rate, const Shape& shape) {
  const auto rows = static_cast<double>(shape[0]), columns = static_cast<double>(shape[1]);
  return static_cast<float>(rate == MuonRate::original ? std::sqrt(std::max(1.0, rows / columns))
                                                       : 0.2 * std::sqrt(std::max(rows, columns)));
}

std::optional<TensorRule> muon_rule(const OptimizerSettings& settings, const OptimizerStep& step, const SteppedTensor& tensor) {
  if (!tensor.is_hidden) return {};
  return Muon{.lr = step.lr,
              .momentum = settings.momentum,
              .weight_decay = decay_of(settings, tensor),
              .nesterov = settings.nesterov,
              .update_scale = muon_scale(settings.muon_rate, tensor.shape),
              .grad_scale = step.grad_scale};
}

// --- GaLore: exp_avg, exp_avg_sq, projector ---

// The smaller side is projected.
bool projects_columns(const SteppedTensor& tensor) { return tensor.shape[0] >= tensor.shape[1]; }

std::vector<Shape> galore_states(const OptimizerSettings& settings, const SteppedTensor& tensor) {
  if (!tensor.is_hidden) return {tensor.shape, tensor.shape, no_state};
  const std::int64_t side = std::min(tensor.shape[0], tensor.shape[1]), rank = std::min(settings.galore_rank, side);
  const bool columns_of_stored = projects_columns(tensor) != tensor.transposed;
  const std::int64_t other = std::max(tensor.shape[0], tensor.shape[1]);
  const Shape moment = columns_of_stored ? Shape{other, rank} : Shape{rank, other};
  return {moment, moment, {rank, side}};
}

std::optional<TensorRule> galore_rule(const OptimizerSettings& settings, const OptimizerStep& step,
                                      const SteppedTensor& tensor) {
  if (!tensor.is_hidden) return {};
  return GaLore{.lr = step.lr,
                .beta1 = settings.beta1,
                .beta2 = settings.beta2,
                .eps = settings.eps,
                .weight_decay = decay_of(settings, tensor),
                .scale = settings.galore_scale,
                .refreshes = (step.step - 1) % settings.galore_gap == 0,
                .right = projects_columns(tensor) != tensor.transposed,
                .step = step.step,
                .grad_scale = step.grad_scale};
}

bool is_hidden(TensorRole role, const Shape& shape) {
  return shape.rank() == 2 && is_matrix(role) && role != TensorRole::output_weight;
}

}  // namespace

SteppedTensor stepped_tensor(const Parameter& parameter) {
  return {parameter.full, parameter.transposed, is_hidden(parameter.role, parameter.full), parameter.decays};
}

SteppedTensor stepped_tensor(const TensorSpec& tensor) {
  return {tensor.shape, tensor.transposed, is_hidden(tensor.role, tensor.shape), tensor.decays};
}

const TensorKind adafactor_kind{adafactor_states, adafactor_rule};
const TensorKind came_kind{came_states, came_rule};
const TensorKind lamb_kind{lamb_states, lamb_rule};
const TensorKind muon_kind{muon_states, muon_rule};
const TensorKind galore_kind{galore_states, galore_rule};

}  // namespace pipetrain
