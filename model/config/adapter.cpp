#include "model/config/adapter.hpp"

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

std::optional<ModuleAdapter> adapter_of(const Adapter& adapter, std::string_view module, std::int64_t layer) {
  if (!adapter.exists()) return {};
  const auto is_meant = [&](const std::string& name) { return names_module(name, module); };
  if (!adapter.layers.empty() && !std::binary_search(adapter.layers.begin(), adapter.layers.end(), layer)) return {};
  if (!adapter.targets.empty() && std::none_of(adapter.targets.begin(), adapter.targets.end(), is_meant)) return {};
  const std::int64_t rank = value_for(adapter.ranks, module, adapter.rank);
  const double alpha = value_for(adapter.alphas, module, adapter.alpha), size = static_cast<double>(rank);
  return ModuleAdapter{rank, alpha / (adapter.root_scale ? std::sqrt(size) : size)};
}

}  // namespace pipetrain
