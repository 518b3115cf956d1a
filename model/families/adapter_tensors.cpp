#include "model/families/adapter_tensors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "model/families/family.hpp"

namespace pipetrain {
namespace {

// The matrix takes the inputs that the module's does. Ranks that divide the module's inputs divide the matrix's columns.
TensorSpec first_matrix(const TensorSpec& tensor, const AdaptableModule& module, TensorRole role, std::int64_t rank) {
  const bool divides_inputs = tensor.split == (tensor.transposed ? Split::rows : Split::columns);
  return {.role = role,
          .name = module.name + std::string(adapter_in_end),
          .shape = {rank, tensor.shape[tensor.transposed ? 0 : 1]},
          .split = divides_inputs ? Split::columns : Split::none,
          .initialisation = Initialisation::input_uniform,
          .group = ParameterGroup::adapter};
}

// The matrix has the rows of the module's, which are spread over ranks alike.
TensorSpec second_matrix(const TensorSpec& tensor, const AdaptableModule& module, TensorRole role, std::int64_t rank) {
  const bool divides_outputs = tensor.split == (tensor.transposed ? Split::columns : Split::rows);
  return {.role = role,
          .name = module.name + std::string(adapter_out_end),
          .shape = {tensor.shape[tensor.transposed ? 1 : 0], rank},
          .split = divides_outputs ? Split::rows : Split::none,
          .indivisible = tensor.indivisible,
          .part = tensor.part,
          .initialisation = Initialisation::zeros,
          .group = ParameterGroup::adapter};
}

// The magnitudes are spread over ranks as the rows of the module's matrix are.
TensorSpec magnitude(const TensorSpec& tensor, const AdaptableModule& module, TensorRole role) {
  TensorSpec made = second_matrix(tensor, module, role, 1);
  made.name = module.name + std::string(magnitude_end);
  made.shape = {made.shape[0]};
  made.initialisation = Initialisation::row_norms;
  made.decays = false;
  return made;
}

}  // namespace

void add_adapter_tensors(const ModelConfig& config, const Block& block, std::vector<TensorSpec>& tensors) {
  const auto modules = adaptable_modules(tensors);
  std::vector<TensorSpec> added;
  // Calls add(tensor, module, roles, rank, is_first) for each tensor of an adapted module; tensors of one role follow each
  // other.
  const auto for_each_adapted = [&](const auto& add) {
    const std::string* before = nullptr;  // a module of several parts is adapted once
    for (std::size_t i = 0; i < modules.size(); ++i) {
      if (!modules[i]) continue;
      const auto adapter = adapter_of(config.adapter, modules[i]->name, block.layer);
      if (!adapter) continue;
      const bool is_first = before == nullptr || *before != modules[i]->name;
      add(tensors[i], *modules[i], *adapter_roles(modules[i]->matrix), adapter->rank, is_first);
      before = &modules[i]->name;
    }
  };
  using Module = AdaptableModule;
  for_each_adapted(
      [&](const TensorSpec& tensor, const Module& module, const AdapterRoles& roles, std::int64_t rank, bool first) {
        if (first) added.push_back(first_matrix(tensor, module, roles.in, rank));
      });
  for_each_adapted([&](const TensorSpec& tensor, const Module& module, const AdapterRoles& roles, std::int64_t rank, bool) {
    added.push_back(second_matrix(tensor, module, roles.out[module.number], rank));
  });
  if (config.adapter.magnitudes)
    for_each_adapted([&](const TensorSpec& tensor, const Module& module, const AdapterRoles& roles, std::int64_t, bool) {
      added.push_back(magnitude(tensor, module, roles.magnitude));
    });
  tensors.insert(tensors.end(), added.begin(), added.end());
}

std::optional<TargetFault> find_target_fault(const ModelConfig& config) {
  const Adapter& adapter = config.adapter;
  if (!adapter.exists()) return {};
  const bool routes = config.routed_layers() > 0;
  if (routes && adapter.targets.empty())
    return TargetFault{"all",
                       "adapters of routed experts are not built yet; name matrices of attention, such as q_proj,v_proj"};
  std::set<std::string> names;  // the last parts of the names
  for (const BlockCount& counted : block_counts(config)) {
    if (routes && counted.block.kind != BlockKind::attention) continue;
    for (const auto& module : adaptable_modules(spec_of(config.family).tensors(config, counted.block)))
      if (module) names.insert(module->name.substr(module->name.rfind('.') + 1));
  }
  for (const std::string& target : adapter.targets) {
    if (names.contains(target.substr(target.rfind('.') + 1))) continue;
    return TargetFault{target,
                       fmt::format("names no matrix of the model that can have an adapter{}; name some of {}",
                                   routes ? ", and those of routed experts are not built yet" : "", fmt::join(names, ", "))};
  }
  return {};
}

}  // namespace pipetrain
