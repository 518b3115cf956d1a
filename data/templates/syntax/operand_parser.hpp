// Reads operands: values with the attributes, subscripts, calls, filters and tests that follow them. Internal to data/.
#pragma once

#include <set>
#include <string>

#include "data/templates/syntax/primary_parser.hpp"

namespace pipetrain::templates {

// All methods throw TemplateFault with the line.
class OperandParser {
 public:
  OperandParser(TokenReader& tokens, NestedExpressions& nested) : tokens_(tokens), nested_(nested), primary_(tokens, nested) {}

  Expression primary() { return primary_.primary(); }
  Expression postfix(Expression value);
  Expression filtered(Expression value);
  Expression filters_of_block();

  // These return every name, attribute and string read so far, and only the names read since the caller emptied them.
  const std::set<std::string>& words() const { return primary_.words(); }
  std::set<std::string>& names() { return primary_.names(); }

 private:
  Expression filter(ExpressionPointer input);
  Expression test(Expression value);
  Expression attribute(Expression object);
  Expression subscript(Expression object);
  Expression slice(Expression object, ExpressionPointer begin);
  Expression call(Expression callee);
  CallArguments arguments();
  void add_argument(CallArguments& arguments);

  TokenReader& tokens_;
  NestedExpressions& nested_;
  PrimaryParser primary_;
};

}  // namespace pipetrain::templates
