// Scope holds the variables of a block. Internal to data/.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "data/templates/values/value.hpp"

namespace pipetrain::templates {

class Scope {
 public:
  explicit Scope(std::shared_ptr<const Scope> parent) : parent_(std::move(parent)) {}

  // Returns the variable of this scope or of the nearest one around it; null where there is none.
  const Value* find(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent_.get())
      for (const auto& [known, value] : scope->variables_)
        if (known == name) return &value;
    return nullptr;
  }
  // Sets the variable in this scope alone. The name must outlive the scope.
  void set(std::string_view name, Value value) {
    for (auto& [known, old] : variables_)
      if (known == name) {
        old = std::move(value);
        return;
      }
    variables_.emplace_back(name, std::move(value));
  }
  void clear() { variables_.clear(); }

 private:
  std::shared_ptr<const Scope> parent_;
  std::vector<std::pair<std::string_view, Value>> variables_;
};

}  // namespace pipetrain::templates
