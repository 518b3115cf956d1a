#include "model/families/adapter_tensors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "model/families/family.hpp"

namespace pipetrain {
namespace {

// True for the matrices of experts, of whose adapters each rank computes the part of its own columns.
bool is_of_expert(const TensorSpec& tensor) {
  return tensor.expert >= 0 || tensor.role == TensorRole::shared_in_weight || tensor.role == TensorRole::shared_out_weight;
}

// The matrix takes the inputs that the module's does. Ranks that divide the module's inputs divide the matrix's columns.
TensorSpec first_matrix(const TensorSpec& tensor, const AdaptableModule& module, TensorRole role, std::int64_t rank) {
  const bool divides_inputs = tensor.split == (tensor.transposed ? Split::rows : Split::columns);
  return {.role = role,
          .name = module.name + std::string(adapter_in_end),
          .shape = {rank, tensor.shape[tensor.transposed ? 0 : 1]},
          .split = divides_inputs ? Split::columns : Split::none,
          .initialisation = Initialisation::input_uniform,
          .group = ParameterGroup::adapter,
          .expert = tensor.expert,
          .shared = is_of_expert(tensor) && !divides_inputs};
}

// The matrix has the rows of the module's, which are spread over ranks alike. A module of several tensors has a part for each.
TensorSpec second_matrix(const TensorSpec& tensor, const AdaptableModule& module, TensorRole role, std::int64_t rank) {
  const bool divides_outputs = tensor.split == (tensor.transposed ? Split::columns : Split::rows);
  return {.role = role,
          .name = module.name + std::string(adapter_out_end),
          .shape = {tensor.shape[tensor.transposed ? 1 : 0] / tensor.part.count * module.part.count, rank},
          .split = divides_outputs ? Split::rows : Split::none,
          .indivisible = tensor.indivisible,
          .part = module.part,
          .initialisation = Initialisation::zeros,
          .group = ParameterGroup::adapter,
          .expert = tensor.expert,
          .shared = is_of_expert(tensor) && !divides_outputs};
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
  const auto modules = adaptable_modules(config.adapter, tensors);
  std::vector<TensorSpec> added;
  // Calls add(tensor, module, roles, rank, is_first) for each tensor of an adapted module; tensors of one role follow each
  // other.
  const auto for_each_adapted = [&](const auto& add) {
    const std::string* before = nullptr;  // a module of several parts is adapted once
    for (std::size_t i = 0; i < modules.size(); ++i) {
      if (!modules[i]) continue;
      const auto adapter = adapter_of(config.adapter, modules[i]->name, block);
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
  const auto first_matrices = static_cast<std::ptrdiff_t>(added.size());
  for_each_adapted([&](const TensorSpec& tensor, const Module& module, const AdapterRoles& roles, std::int64_t rank, bool) {
    added.push_back(second_matrix(tensor, module, roles.out[module.number], rank));
  });
  // The modules of an expert follow each other, and their second matrices have different roles.
  std::stable_sort(added.begin() + first_matrices, added.end(),
                   [](const TensorSpec& a, const TensorSpec& b) { return a.role < b.role; });
  if (config.adapter.magnitudes)
    for_each_adapted([&](const TensorSpec& tensor, const Module& module, const AdapterRoles& roles, std::int64_t, bool) {
      added.push_back(magnitude(tensor, module, roles.magnitude.value()));
    });
  tensors.insert(tensors.end(), added.begin(), added.end());
}

namespace {

std::string targets_text(const ModelConfig& config) {
  const Adapter& adapter = config.adapter;
  return fmt::format("{}", fmt::join(adapter.targets.empty() ? adapter.parameters : adapter.targets, ","));
}

// Calls visit(block, its adaptable modules) for one block of each kind.
template <class Visit>
void for_each_kind(const ModelConfig& config, const Visit& visit) {
  for (const BlockCount& counted : block_counts(config))
    visit(counted.block, adaptable_modules(config.adapter, spec_of(config.family).tensors(config, counted.block)));
}

std::optional<ModuleAdapter> adapter_of_module(const ModelConfig& config, const AdaptableModule& module, const Block& block) {
  return adapter_of(config.adapter, module.name, block);
}

// Products of all experts at once need equal adapters of all experts.
std::optional<TargetFault> find_unequal_experts(const ModelConfig& config) {
  bool are_equal = true;
  for_each_kind(config, [&](const Block& block, const auto& modules) {
    std::map<std::pair<TensorRole, std::size_t>, std::optional<ModuleAdapter>> first;
    for (const auto& module : modules) {
      if (!module || module->expert < 0) continue;
      const auto own = adapter_of_module(config, *module, block);
      const auto known = first.try_emplace({module->matrix, module->number}, own).first->second;
      are_equal &= own.has_value() == known.has_value() && (!own || (own->rank == known->rank && own->scale == known->scale));
    }
  });
  if (are_equal) return {};
  return TargetFault{targets_text(config),
                     "gives the experts of a layer different adapters, which is not built; name a matrix of "
                     "all experts, such as gate_proj, with one rank and one alpha"};
}

// True when a module for which matches(role) holds has an adapter.
template <class Matches>
bool adapts(const ModelConfig& config, const Matches& matches) {
  bool adapts = false;
  if (config.adapter.exists())
    for_each_kind(config, [&](const Block& block, const auto& modules) {
      for (const auto& module : modules)
        adapts |= module && matches(module->matrix) && adapter_of_module(config, *module, block).has_value();
    });
  return adapts;
}

std::optional<TargetFault> find_unbuilt_adapters(const ModelConfig& config) {
  const std::string target = config.adapter.targets.empty() ? "all" : targets_text(config);
  const auto lacks_magnitudes = [](TensorRole matrix) { return !adapter_roles(matrix)->magnitude; };
  if (config.adapter.magnitudes && adapts(config, lacks_magnitudes))
    return TargetFault{target,
                       "adapters of experts, of latent attention and of the head have no magnitudes (DoRA); name other "
                       "matrices, such as o_proj, or leave them out"};
  const auto is_head = [](TensorRole matrix) { return matrix == TensorRole::output_weight; };
  if (config.trained.head && adapts(config, is_head))
    return TargetFault{target, "the head is trained whole, so that it takes no adapter; leave out one of them"};
  return find_unequal_experts(config);
}

}  // namespace

bool adapts_experts(const ModelConfig& config) {
  using enum TensorRole;
  return adapts(config, [](TensorRole matrix) { return matrix == expert_in_weight || matrix == expert_out_weight; });
}

namespace {

// Finds a name that no parameter of the experts has, in any layer that may have adapters.
std::optional<TargetFault> find_parameter_fault(const ModelConfig& config) {
  const auto is_known = [&](const std::string& parameter) {
    const auto blocks = blocks_of(config);
    return std::any_of(blocks.begin(), blocks.end(), [&](const Block& block) {
      if (block.kind != BlockKind::experts) return false;
      return names_module(parameter, gate_up_parameter(block.layer)) || names_module(parameter, down_parameter(block.layer));
    });
  };
  for (const std::string& parameter : config.adapter.parameters)
    if (!is_known(parameter))
      return TargetFault{parameter,
                         "names no parameter of the model that can have an adapter; name mlp.experts.gate_up_proj or "
                         "mlp.experts.down_proj of a model with routed experts"};
  return {};
}

}  // namespace

std::optional<TargetFault> find_target_fault(const ModelConfig& config) {
  const Adapter& adapter = config.adapter;
  if (!adapter.exists()) return {};
  if (auto fault = find_parameter_fault(config)) return fault;
  std::set<std::string> names;  // the last parts of the names
  for_each_kind(config, [&](const Block&, const auto& modules) {
    for (const auto& module : modules)
      if (module && (module->expert < 0 || adapter.parameters.empty()))
        names.insert(module->name.substr(module->name.rfind('.') + 1));
  });
  for (const std::string& target : adapter.targets) {
    if (names.contains(target.substr(target.rfind('.') + 1))) continue;
    return TargetFault{
        target, fmt::format("names no matrix of the model that can have an adapter; name some of {}", fmt::join(names, ", "))};
  }
  return find_unbuilt_adapters(config);
}

}  // namespace pipetrain
