#include "model/config/adapter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace pipetrain {
namespace {

// Returns the value of the first entry whose name matches the module, or `usual`.
template <class Value>
Value value_for(const std::map<std::string, Value>& values, std::string_view module, Value usual) {
  for (const auto& [name, value] : values)
    if (names_module(name, module)) return value;
  return usual;
}

}  // namespace

bool names_module(std::string_view name, std::string_view module) {
  if (!module.ends_with(name)) return false;
  return module.size() == name.size() || module[module.size() - name.size() - 1] == '.';
}

std::string gate_up_parameter(std::int64_t layer) { return fmt::format("model.layers.{}.mlp.experts.gate_up_proj", layer); }
std::string down_parameter(std::int64_t layer) { return fmt::format("model.layers.{}.mlp.experts.down_proj", layer); }

std::optional<std::string> parameter_of(std::string_view module) {
  constexpr std::string_view infix = ".experts.";
  const std::size_t at = module.find(infix);
  if (at == std::string_view::npos) return {};
  const std::size_t number = at + infix.size();
  return std::string(module.substr(0, number)) + std::string(module.substr(module.find('.', number) + 1));
}

std::optional<ModuleAdapter> adapter_of(const Adapter& adapter, std::string_view module, std::int64_t layer) {
  if (!adapter.exists()) return {};
  if (!adapter.layers.empty() && !std::binary_search(adapter.layers.begin(), adapter.layers.end(), layer)) return {};
  const auto parameter = adapter.parameters.empty() ? std::nullopt : parameter_of(module);
  const std::string name = parameter.value_or(std::string(module));
  const std::vector<std::string>& names = parameter ? adapter.parameters : adapter.targets;
  const auto is_meant = [&](const std::string& end) { return names_module(end, name); };
  const bool all_are_meant = adapter.targets.empty() && adapter.parameters.empty();
  if (!all_are_meant && std::none_of(names.begin(), names.end(), is_meant)) return {};
  const std::int64_t rank = value_for(adapter.ranks, name, adapter.rank);
  const double alpha = value_for(adapter.alphas, name, adapter.alpha), size = static_cast<double>(rank);
  return ModuleAdapter{rank, alpha / (adapter.root_scale ? std::sqrt(size) : size)};
}

}  // namespace pipetrain
