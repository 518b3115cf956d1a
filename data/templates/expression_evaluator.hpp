// ExpressionEvaluator gives the values of expressions. Internal to data/.
#pragma once

#include <memory>
#include <string>

#include "data/templates/scope.hpp"
#include "data/templates/syntax/ast.hpp"
#include "data/templates/values/object.hpp"
#include "data/templates/values/runtime.hpp"

namespace pipetrain::templates {

// All methods throw TemplateFault; line() is then where it happened.
class ExpressionEvaluator {
 public:
  // Variables are those of the scope that `scope` points to at the time.
  ExpressionEvaluator(Runtime& runtime, const std::shared_ptr<Scope>& scope) : runtime_(runtime), scope_(scope) {}

  Value evaluate(const Expression& expression);
  Arguments arguments_of(const CallArguments& given);
  Value call(const Value& callee, const Arguments& arguments);
  // Applies the filters of a block to its text.
  Value filtered_block(const Expression& filter, std::string text);

  int line() const { return line_; }
  void set_line(int line) { line_ = line; }

 private:
  Value value_of(const Constant& node) { return node.value; }
  Value value_of(const Name& node);
  Value value_of(const Unary& node);
  Value value_of(const Binary& node);
  Value value_of(const Comparison& node);
  Value value_of(const Concatenation& node);
  Value value_of(const Conditional& node);
  Value value_of(const ListDisplay& node);
  Value value_of(const TupleDisplay& node);
  Value value_of(const DictDisplay& node);
  Value value_of(const Attribute& node);
  Value value_of(const Subscript& node);
  Value value_of(const Slice& node);
  Value value_of(const Call& node);
  Value value_of(const Filter& node);
  Value value_of(const Test& node);
  Values values_of_all(const Expressions& expressions);

  Runtime& runtime_;
  const std::shared_ptr<Scope>& scope_;
  Value block_text_;  // for filters without an input
  int line_ = 0;
};

}  // namespace pipetrain::templates
