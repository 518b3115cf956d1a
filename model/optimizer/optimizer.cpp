#include "model/optimizer/optimizer.hpp"

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

const std::vector<OptimizerKind>& optimizers() {
  static const std::vector<OptimizerKind> table = {
      {{}, Granularity::element, {"exp_avg", "exp_avg_sq"}, adamw_rule},
      {{.name = "lion", .beta2 = 0.99F, .eps = 0}, Granularity::element, {"exp_avg"}, lion_rule},
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

UpdateRule Optimizer::rule(const OptimizerStep& step, bool decays) const {
  OptimizerSettings own = settings_;
  if (!decays) own.weight_decay = 0;
  return kind_.rule(own, step);
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const OptimizerKind& kind : optimizers()) names.push_back(kind.defaults.name);
  return names;
}

OptimizerSettings default_settings(const std::string& name) { return kind_of(name).defaults; }

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
             last.decays == part.decays;
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
  for (const OptimizerPart& part : joined(parts)) ops.update(update_of(part, arenas, optimizer.rule(step, part.decays)));
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
