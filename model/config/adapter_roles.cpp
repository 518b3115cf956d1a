#include "model/config/adapter_roles.hpp"

#include <string_view>
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
    case expert_in_weight:
      return AdapterRoles{expert_in_adapter_in, {}, {expert_in_adapter_out_1, expert_in_adapter_out_2}};
    case expert_out_weight:
      return AdapterRoles{expert_out_adapter_in, {}, {expert_out_adapter_out}};
    default:
      return {};
  }
}

std::string module_of(const std::string& weight) {
  constexpr std::string_view end = ".weight";
  return weight.substr(0, weight.size() - end.size());
}

std::vector<std::optional<AdaptableModule>> adaptable_modules(const std::vector<TensorSpec>& tensors) {
  std::vector<std::optional<AdaptableModule>> modules;
  std::optional<AdaptableModule> last;
  for (const TensorSpec& tensor : tensors) {
    std::optional<AdaptableModule> module;
    if (adapter_roles(tensor.role)) {
      module = {module_of(tensor.name), tensor.role, 0, tensor.expert};
      if (last && last->matrix == module->matrix && last->expert == module->expert)
        module->number = last->number + (last->name == module->name ? 0 : 1);
      last = module;
    }
    modules.push_back(std::move(module));
  }
  return modules;
}

}  // namespace pipetrain
