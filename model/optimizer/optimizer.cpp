#include "model/optimizer/optimizer.hpp"

#include <algorithm>
#include <cassert>

#include "core/error.hpp"
#include "model/parameters/arena_views.hpp"

namespace pipetrain {
namespace {

UpdateRule adamw_rule(const OptimizerSettings& settings, const OptimizerStep& step) {
  return AdamW{.lr = step.lr,
               .beta1 = settings.beta1,
               .beta2 = settings.beta2,
               .eps = settings.eps,
               .weight_decay = settings.weight_decay,
               .step = step.step,
               .grad_scale = step.grad_scale};
}

UpdateRule lion_rule(const OptimizerSettings& settings, const OptimizerStep& step) {
  return Lion{.lr = step.lr,
              .beta1 = settings.beta1,
              .beta2 = settings.beta2,
              .weight_decay = settings.weight_decay,
              .grad_scale = step.grad_scale};
}

UpdateRule sgd_rule(const OptimizerSettings& settings, const OptimizerStep& step) {
  if (settings.momentum == 0)
    return PlainSgd{.lr = step.lr, .weight_decay = settings.weight_decay, .grad_scale = step.grad_scale};
  return Sgd{.lr = step.lr,
             .momentum = settings.momentum,
             .weight_decay = settings.weight_decay,
             .nesterov = settings.nesterov,
             .grad_scale = step.grad_scale};
}

bool has_momentum(const OptimizerSettings& settings) { return settings.momentum != 0; }

// The defaults are those of the sources that ops/update.hpp and ops/tensor_update.hpp name; AdamW's factors in Muon are
// AdamW's.
const std::vector<OptimizerKind>& optimizers() {
  using enum Granularity;
  const std::vector<std::string> moments = {"exp_avg", "exp_avg_sq"}, of_adam = {"beta1", "beta2", "adam-eps"};
  static const std::vector<OptimizerKind> table = {
      {{}, element, moments, adamw_rule, of_adam},
      {{.name = "lion", .beta2 = 0.99F}, element, {"exp_avg"}, lion_rule, {"beta1", "beta2"}},
      {.defaults = {.name = "sgd", .weight_decay = 0},
       .states = {"momentum_buffer"},
       .rule = sgd_rule,
       .settings = {"momentum", "nesterov"},
       .keeps_states = has_momentum},
      {{.name = "adamw-8bit", .beta2 = 0.999F, .weight_decay = 0.01F}, block, moments, adamw_rule, of_adam},
      {{.name = "adafactor", .eps = 1.1920929e-7F, .weight_decay = 0},
       matrix,
       {"row_var", "col_var", "variance"},
       nullptr,
       {"beta2-decay", "adam-eps", "eps2", "clip-threshold"},
       &adafactor_kind},
      {{.name = "came", .beta2 = 0.999F, .eps = 1e-30F, .weight_decay = 0, .eps2 = 1e-16F},
       matrix,
       {"exp_avg", "exp_avg_sq", "exp_avg_sq_row", "exp_avg_sq_col", "exp_avg_res_row", "exp_avg_res_col"},
       nullptr,
       {"beta1", "beta2", "beta3", "adam-eps", "eps2", "clip-threshold"},
       &came_kind},
      {{.name = "lamb", .beta2 = 0.999F, .eps = 1e-6F, .weight_decay = 0.01F}, matrix, moments, nullptr, of_adam, &lamb_kind},
      {{.name = "galore", .beta2 = 0.999F, .eps = 1e-6F, .weight_decay = 0},
       matrix,
       {"exp_avg", "exp_avg_sq", "projector"},
       adamw_rule,
       {"beta1", "beta2", "adam-eps", "galore-rank", "galore-update-proj-gap", "galore-scale"},
       &galore_kind},
      {{.name = "muon", .momentum = 0.95F, .nesterov = true},
       matrix,
       {"momentum_buffer", "exp_avg", "exp_avg_sq"},
       adamw_rule,
       {"momentum", "nesterov", "muon-adjust-lr", "beta1", "beta2", "adam-eps"},
       &muon_kind},
  };
  return table;
}

const OptimizerKind& kind_of(const std::string& name) {
  for (const OptimizerKind& kind : optimizers())
    if (kind.defaults.name == name) return kind;
  std::string names;
  for (const OptimizerKind& kind : optimizers()) names += (names.empty() ? "" : ", ") + kind.defaults.name;
  throw Error(ErrorKind::input, "there is no optimizer " + name + "; take one of " + names);
}

}  // namespace

Optimizer::Optimizer(const OptimizerKind& kind, const OptimizerSettings& settings) : kind_(kind), settings_(settings) {
  if (kind_.keeps_states != nullptr && !kind_.keeps_states(settings)) kind_.states.clear();
}

double Optimizer::state_bytes(const SteppedTensor& tensor) const {
  const auto elements = static_cast<double>(tensor.shape.elements());
  const double each = kind_.granularity == Granularity::block && tensor.shape.elements() >= least_eight_bit_elements
                          ? 1 + sizeof(float) / static_cast<double>(eight_bit_block)
                          : sizeof(float);
  if (kind_.granularity != Granularity::matrix) return static_cast<double>(kind_.states.size()) * elements * each;
  double bytes = 0;
  for (const Shape& shape : state_shapes(tensor)) bytes += static_cast<double>(shape.elements()) * sizeof(float);
  return bytes;
}

UpdateRule Optimizer::rule(const OptimizerStep& step, bool decays) const {
  OptimizerSettings own = settings_;
  if (!decays) own.weight_decay = 0;
  return kind_.rule(own, step);
}

UpdateRule Optimizer::frozen_rule(const OptimizerStep& step, bool decays) const {
  return FrozenAdamW{std::get<AdamW>(rule(step, decays)), step.frozen_after};
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const OptimizerKind& kind : optimizers()) names.push_back(kind.defaults.name);
  return names;
}

OptimizerSettings default_settings(const std::string& name) { return kind_of(name).defaults; }

bool optimizer_uses(const std::string& name, const std::string& setting) {
  const auto& used = kind_of(name).settings;
  return std::find(used.begin(), used.end(), setting) != used.end();
}

std::unique_ptr<const Optimizer> make_optimizer(const OptimizerSettings& settings) {
  return std::make_unique<Optimizer>(kind_of(settings.name), settings);
}

std::vector<OptimizerPart> whole_parts(const ParameterLayout& layout) {
  const bool has_embedding = find_tensor(layout, TensorRole::token_table) != nullptr;
  std::vector<OptimizerPart> parts;
  std::size_t next = 0;  // the first parameter of the stored tensor: both lists have one order
  for (const BlockParameters& block : layout.blocks) {
    for (const StoredTensor& tensor : block.tensors) {
      const auto elements = static_cast<std::size_t>(tensor.shape.elements());
      while (next < layout.parameters.size() && layout.parameters[next].local.elements() == 0) ++next;
      const bool is_held = next < layout.parameters.size() && layout.parameters[next].grad_offset >= tensor.grad_offset &&
                           layout.parameters[next].grad_offset < tensor.grad_offset + elements;
      if (!is_held) continue;  // all padding: the rank has no row here, e.g. of a head with fewer classes than ranks
      const Parameter& parameter = layout.parameters[next];
      assert(parameter.grad_offset == tensor.grad_offset);
      const auto inside = [&](const Parameter& other) {
        return other.grad_offset > tensor.grad_offset && other.grad_offset < tensor.grad_offset + elements;
      };
      do {
        ++next;
      } while (next < layout.parameters.size() && inside(layout.parameters[next]));
      if (!is_trained(parameter.group) || (parameter.tied_copy && has_embedding)) continue;
      parts.push_back({elements, tensor.offset, tensor.grad_offset, tensor.offset, tensor.offset, parameter.decays});
    }
  }
  return parts;
}

namespace {

UpdateArgs update_of(const OptimizerPart& part, const OptimizerArenas& arenas, const UpdateRule& rule) {
  UpdateArgs args{.weight = span(arenas.weights, part.weight, part.elements),
                  .grad = span(arenas.grads, part.grad, part.elements),
                  .states = {},
                  .rule = rule};
  for (std::size_t i = 0; i < arenas.states.size(); ++i) args.states.at(i) = span(arenas.states[i], part.state, part.elements);
  if (arenas.rounded.data != nullptr) args.rounded = span(arenas.rounded, part.rounded, part.elements);
  return args;
}

// Joins adjacent parts, so that the small tensors of a model take fewer launches. Every element is stepped
// independently, so the result is the same.
std::vector<OptimizerPart> joined(const std::vector<OptimizerPart>& parts) {
  std::vector<OptimizerPart> runs;
  for (const OptimizerPart& part : parts) {
    const auto follows = [&](const OptimizerPart& last) {
      return last.weight + last.elements == part.weight && last.grad + last.elements == part.grad &&
             last.state + last.elements == part.state && last.rounded + last.elements == part.rounded &&
             last.decays == part.decays && last.averaged == part.averaged;
    };
    if (!runs.empty() && follows(runs.back())) {
      runs.back().elements += part.elements;
    } else {
      runs.push_back(part);
    }
  }
  return runs;
}

}  // namespace

void optimizer_step(const std::vector<OptimizerPart>& parts, Ops& ops, const OptimizerArenas& arenas,
                    const Optimizer& optimizer, const OptimizerStep& step) {
  for (const OptimizerPart& part : joined(parts)) {
    const bool is_frozen = part.averaged && step.frozen_after > 0;
    const UpdateRule rule = is_frozen ? optimizer.frozen_rule(step, part.decays) : optimizer.rule(step, part.decays);
    ops.update(update_of(part, arenas, rule));
  }
}

void optimizer_preview(const std::vector<OptimizerPart>& parts, Ops& ops, const OptimizerArenas& arenas,
                       const Optimizer& optimizer, const OptimizerStep& step) {
  for (const OptimizerPart& part : joined(parts)) {
    UpdateArgs args = update_of(part, arenas, optimizer.rule(step, part.decays));
    args.preview = true;
    ops.update(args);
  }
}

}  // namespace pipetrain
