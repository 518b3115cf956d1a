// Gives the parameters of a macro the arguments of a call. Internal to data/.
#pragma once

#include <string>

#include "data/templates/expression_evaluator.hpp"

namespace pipetrain::templates {

struct MacroCall {
  const std::string& name;
  const Signature& signature;
  const Arguments& arguments;
};

// Sets the variables of `scope`, in which `expressions` evaluates at the time: defaults may use the parameters before them.
// Throws TemplateFault for arguments that the macro does not take.
void bind_parameters(const MacroCall& call, Scope& scope, ExpressionEvaluator& expressions);

// The parameter that holds the body of a call block.
inline constexpr const char* caller_parameter = "caller";

}  // namespace pipetrain::templates
