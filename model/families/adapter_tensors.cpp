#include "model/families/adapter_tensors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/error.hpp"
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

}  // namespace

void add_adapter_tensors(const ModelConfig& config, const Block& block, std::vector<TensorSpec>& tensors) {
  const auto modules = adaptable_modules(tensors);
  std::vector<TensorSpec> added;
  // Tensors of one role follow each other, and a module of several parts has one first matrix.
  for (const bool is_in : {true, false}) {
    const std::string* before = nullptr;
    for (std::size_t i = 0; i < modules.size(); ++i) {
      if (!modules[i]) continue;
      const AdaptableModule& module = *modules[i];
      const auto adapter = adapter_of(config.adapter, module.name, block.layer);
      if (!adapter) continue;
      const AdapterRoles roles = *adapter_roles(module.matrix);
      if (!is_in) added.push_back(second_matrix(tensors[i], module, roles.out[module.number], adapter->rank));
      if (is_in && (before == nullptr || *before != module.name))
        added.push_back(first_matrix(tensors[i], module, roles.in, adapter->rank));
      before = &module.name;
    }
  }
  tensors.insert(tensors.end(), added.begin(), added.end());
}

void check_adapter(const ModelConfig& config) {
  const Adapter& adapter = config.adapter;
  if (!adapter.exists()) return;
  const auto refuse = [&](const std::string& value, const std::string& why) {
    throw Error(ErrorKind::input, {"lora-targets", value}, why);
  };
  const bool routes = config.routed_layers() > 0;
  if (routes && adapter.targets.empty())
    refuse("all", "adapters of routed experts are not built yet; name matrices of attention, such as q_proj,v_proj");
  std::set<std::string> names;  // the last parts of the names
  for (const BlockCount& counted : block_counts(config)) {
    if (routes && counted.block.kind != BlockKind::attention) continue;
    for (const auto& module : adaptable_modules(spec_of(config.family).tensors(config, counted.block)))
      if (module) names.insert(module->name.substr(module->name.rfind('.') + 1));
  }
  for (const std::string& target : adapter.targets) {
    if (names.contains(target.substr(target.rfind('.') + 1))) continue;
    refuse(target, fmt::format("names no matrix of the model that can have an adapter{}; name some of {}",
                               routes ? ", and those of routed experts are not built yet" : "", fmt::join(names, ", ")));
  }
}

}  // namespace pipetrain
