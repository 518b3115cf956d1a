#include "data/templates/macro_parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "data/templates/values/printing.hpp"

namespace pipetrain::templates {
namespace {

class ParameterBinder {
 public:
  ParameterBinder(const MacroCall& call, Scope& scope) : call_(call), scope_(scope) {
    for (const auto& [name, value] : call.arguments.named) named_.set(Value(name), value);
  }

  void bind(ExpressionEvaluator& expressions) {
    const auto& parameters = call_.signature.parameters;
    for (std::size_t i = 0; i < parameters.size(); ++i) bind_one(parameters[i], i, expressions);
    bind_caller();
    bind_named();
    bind_positional();
  }

 private:
  void bind_one(const Parameter& parameter, std::size_t place, ExpressionEvaluator& expressions) {
    if (place < call_.arguments.positional.size()) return scope_.set(parameter.name, call_.arguments.positional[place]);
    if (const Value* const given = take_named(parameter.name)) return scope_.set(parameter.name, *given);
    scope_.set(parameter.name, parameter.otherwise
                                   ? expressions.evaluate(*parameter.otherwise)
                                   : make_undefined(fmt::format("parameter '{}' was not provided", parameter.name)));
  }

  const Value* take_named(const std::string& name) {
    const Value* const found = named_.find(std::string_view(name));
    if (found != nullptr) used_.push_back(name);
    return found;
  }

  void bind_caller() {
    const auto& parameters = call_.signature.parameters;
    const bool is_parameter = std::any_of(parameters.begin(), parameters.end(),
                                          [](const Parameter& parameter) { return parameter.name == caller_parameter; });
    if (!call_.signature.takes_caller || is_parameter) return;
    const Value* const caller = take_named(caller_parameter);
    scope_.set(caller_parameter, caller != nullptr ? *caller : make_undefined("No caller defined"));
  }

  void bind_named() {
    DictItems rest;
    for (const auto& [name, value] : call_.arguments.named)
      if (std::find(used_.begin(), used_.end(), name) == used_.end()) rest.set(Value(name), value);
    if (rest.size() > 0 && !call_.signature.takes_named)
      fail(fmt::format("macro '{}' takes no keyword argument {}", call_.name, repr(rest.items().front().first)));
    if (call_.signature.takes_named) scope_.set("kwargs", make_dict(std::move(rest)));
  }

  void bind_positional() {
    const Values& given = call_.arguments.positional;
    const auto taken = static_cast<std::ptrdiff_t>(std::min(call_.signature.parameters.size(), given.size()));
    if (taken < std::ssize(given) && !call_.signature.takes_positional)
      fail(fmt::format("macro '{}' takes not more than {} argument(s)", call_.name, taken));
    if (call_.signature.takes_positional) scope_.set("varargs", make_tuple(Values(given.begin() + taken, given.end())));
  }

  const MacroCall& call_;
  Scope& scope_;
  DictItems named_;
  std::vector<std::string> used_;
};

}  // namespace

void bind_parameters(const MacroCall& call, Scope& scope, ExpressionEvaluator& expressions) {
  ParameterBinder(call, scope).bind(expressions);
}

}  // namespace pipetrain::templates
