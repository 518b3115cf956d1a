// Macro is the value of a {% macro %}, or of the body of a {% call %}. Internal to data/.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "data/templates/evaluator.hpp"

namespace pipetrain::templates {

class Macro : public Object {
 public:
  // The evaluator must outlive all calls; `scope` is where the macro was defined.
  Macro(Evaluator& evaluator, const Evaluator::FunctionBody& function, std::shared_ptr<Scope> scope)
      : evaluator_(evaluator), function_(function), scope_(std::move(scope)) {}
  std::string type_name() const override { return "Macro"; }
  std::string repr() const override { return fmt::format("<Macro '{}'>", *function_.name); }
  std::optional<Value> attribute(std::string_view name) override {
    return name == "name" ? std::optional(Value(*function_.name)) : std::nullopt;
  }
  bool is_callable() const override { return true; }
  Value call(Runtime&, const Arguments& arguments) override { return evaluator_.call_macro(function_, scope_, arguments); }

 private:
  Evaluator& evaluator_;
  Evaluator::FunctionBody function_;
  std::shared_ptr<Scope> scope_;
};

}  // namespace pipetrain::templates
