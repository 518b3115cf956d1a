#include "model/config/adapter_roles.hpp"

#include <fmt/format.h>

#include <utility>

namespace pipetrain {

std::optional<AdapterRoles> adapter_roles(TensorRole matrix) {
  using enum TensorRole;
  switch (matrix) {
    case qkv_weight:
      return AdapterRoles{qkv_adapter_in, qkv_magnitude, {qkv_adapter_out_1, qkv_adapter_out_2, qkv_adapter_out_3}};
    case attention_out_weight:
      return AdapterRoles{attention_out_adapter_in, attention_out_magnitude, {attention_out_adapter_out}};
    case mlp_in_weight:
      return AdapterRoles{mlp_in_adapter_in, mlp_in_magnitude, {mlp_in_adapter_out_1, mlp_in_adapter_out_2}};
    case mlp_out_weight:
      return AdapterRoles{mlp_out_adapter_in, mlp_out_magnitude, {mlp_out_adapter_out}};
    case compress_weight:
      return AdapterRoles{compress_adapter_in, {}, {compress_adapter_out_1, compress_adapter_out_2}};
    case query_expand_weight:
      return AdapterRoles{query_expand_adapter_in, {}, {query_expand_adapter_out}};
    case key_value_expand_weight:
      return AdapterRoles{key_value_expand_adapter_in, {}, {key_value_expand_adapter_out}};
    case shared_in_weight:
      return AdapterRoles{shared_in_adapter_in, {}, {shared_in_adapter_out_1, shared_in_adapter_out_2}};
    case shared_out_weight:
      return AdapterRoles{shared_out_adapter_in, {}, {shared_out_adapter_out}};
    case output_weight:
      return AdapterRoles{output_adapter_in, {}, {output_adapter_out}};
    case expert_in_weight:
      return AdapterRoles{expert_in_adapter_in, {}, {expert_in_adapter_out_1, expert_in_adapter_out_2}};
    case expert_out_weight:
      return AdapterRoles{expert_out_adapter_in, {}, {expert_out_adapter_out}};
    default:
      return {};
  }
}

bool is_adaptable(const TensorSpec& tensor) {
  return adapter_roles(tensor.role) && (tensor.role != TensorRole::output_weight || tensor.name == "lm_head.weight");
}

std::string module_of(const std::string& weight) {
  constexpr std::string_view end = ".weight";
  return weight.substr(0, weight.size() - end.size());
}

std::string adapted_module(const Adapter& adapter, const std::string& weight, TensorRole role) {
  const bool is_of_expert = role == TensorRole::expert_in_weight || role == TensorRole::expert_out_weight;
  if (adapter.parameters.empty() || !is_of_expert) return module_of(weight);
  // The name "model.layers.3.block_sparse_moe.experts.7.w1.weight" gives the layer and the number of the expert.
  constexpr std::string_view infix = ".experts.";
  const std::size_t at = weight.find(infix), number = at + infix.size();
  const std::string layer = weight.substr(0, weight.rfind('.', at - 1));
  const char* const parameter = role == TensorRole::expert_in_weight ? "gate_up_proj" : "down_proj";
  return fmt::format("{}.mlp.experts.{}.{}", layer, weight.substr(number, weight.find('.', number) - number), parameter);
}

std::optional<ModuleAdapter> adapter_of(const Adapter& adapter, std::string_view module, const Block& block) {
  if (is_of_layer(block.kind)) return adapter_of(adapter, module, block.layer);
  constexpr std::int64_t no_layer = -1;
  return adapter.targets.empty() ? std::nullopt : adapter_of(adapter, module, no_layer);
}

std::vector<std::optional<AdaptableModule>> adaptable_modules(const Adapter& adapter, const std::vector<TensorSpec>& tensors) {
  std::vector<std::optional<AdaptableModule>> modules;
  std::optional<AdaptableModule> last;
  for (const TensorSpec& tensor : tensors) {
    std::optional<AdaptableModule> module;
    if (is_adaptable(tensor)) {
      module = {adapted_module(adapter, tensor.name, tensor.role), tensor.role, 0, tensor.expert, tensor.part};
      const bool continues = last && last->name == module->name;
      if (last && last->matrix == module->matrix && last->expert == module->expert)
        module->number = last->number + (continues ? 0 : 1);
      // Gate and up, which are tensors of their own, are the halves of a module.
      if (!adapter.parameters.empty() && tensor.role == TensorRole::expert_in_weight)
        module->part = {.index = continues ? 1 : 0, .count = 2};
      last = module;
    }
    modules.push_back(std::move(module));
  }
  return modules;
}

}  // namespace pipetrain
