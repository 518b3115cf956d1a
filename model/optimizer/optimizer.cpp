#include "model/optimizer/optimizer.hpp"

#include <cassert>
#include <functional>
#include <map>

#include "core/error.hpp"
#include "model/optimizer/adamw.hpp"
#include "model/parameters/arena_views.hpp"

namespace pipetrain {
namespace {

using Make = std::function<std::unique_ptr<const Optimizer>(const OptimizerSettings&)>;

const std::map<std::string, Make>& optimizers() {
  static const std::map<std::string, Make> table = {{"adamw", make_adamw}};
  return table;
}

}  // namespace

std::unique_ptr<const Optimizer> make_optimizer(const OptimizerSettings& settings) {
  const auto found = optimizers().find(settings.name);
  if (found != optimizers().end()) return found->second(settings);
  std::string names;
  for (const auto& [name, make] : optimizers()) names += (names.empty() ? "" : ", ") + name;
  throw Error(ErrorKind::input, "there is no optimizer " + settings.name + "; take one of " + names);
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
      if (!is_held) continue;  // all padding: this rank has no row of a head with fewer classes than ranks, say
      const Parameter& parameter = layout.parameters[next];
      assert(parameter.grad_offset == tensor.grad_offset);
      const auto inside = [&](const Parameter& other) {
        return other.grad_offset > tensor.grad_offset && other.grad_offset < tensor.grad_offset + elements;
      };
      do {
        ++next;
      } while (next < layout.parameters.size() && inside(layout.parameters[next]));
      if (!parameter.trainable || (parameter.tied_copy && has_embedding)) continue;
      parts.push_back({elements, tensor.offset, tensor.grad_offset, tensor.offset, tensor.offset, parameter.decays});
    }
  }
  return parts;
}

namespace {

OptimizerTensors tensors_of(const OptimizerPart& part, const OptimizerArenas& arenas) {
  OptimizerTensors own;
  own.weight = span(arenas.weights, part.weight, part.elements);
  own.grad = span(arenas.grads, part.grad, part.elements);
  for (const Tensor& state : arenas.states) own.states.push_back(span(state, part.state, part.elements));
  if (arenas.rounded.data != nullptr) own.rounded = span(arenas.rounded, part.rounded, part.elements);
  own.decays = part.decays;
  return own;
}

// Neighbours as one, so that the small tensors of a model take fewer launches: every element is stepped by itself anyway.
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
  for (const OptimizerPart& part : joined(parts)) optimizer.step(ops, tensors_of(part, arenas), step);
}

void optimizer_preview(const std::vector<OptimizerPart>& parts, Ops& ops, const OptimizerArenas& arenas,
                       const Optimizer& optimizer, const OptimizerStep& step) {
  for (const OptimizerPart& part : joined(parts)) optimizer.preview(ops, tensors_of(part, arenas), step);
}

}  // namespace pipetrain
