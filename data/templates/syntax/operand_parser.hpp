// Reads operands: values with the attributes, subscripts, calls, filters and tests that follow them. Internal to data/.
#pragma once

#include <set>
#include <string>

#include "data/templates/syntax/ast.hpp"
#include "data/templates/syntax/token_reader.hpp"

namespace pipetrain::templates {

// Reads the expressions in brackets.
class NestedExpressions {
 public:
  virtual ~NestedExpressions() = default;
  virtual Expression expression() = 0;
  // Reads one expression, or a tuple of several with commas between them.
  virtual Expression tuple() = 0;
};

// All methods throw TemplateFault with the line.
class OperandParser {
 public:
  OperandParser(TokenReader& tokens, NestedExpressions& nested) : tokens_(tokens), nested_(nested) {}

  Expression primary();
  Expression postfix(Expression value);
  Expression filtered(Expression value);
  Expression filters_of_block();

  // These return every name, attribute and string read so far, and only the names read since the caller emptied them.
  const std::set<std::string>& words() const { return words_; }
  std::set<std::string>& names() { return names_; }

 private:
  Expression literal(Token token);
  Expression list();
  Expression dict();
  Expression filter(ExpressionPointer input);
  Expression test(Expression value);
  Expression attribute(Expression object);
  Expression subscript(Expression object);
  Expression slice(Expression object, ExpressionPointer begin);
  Expression call(Expression callee);
  CallArguments arguments();
  void add_argument(CallArguments& arguments);
  bool begins_operand() const;

  TokenReader& tokens_;
  NestedExpressions& nested_;
  std::set<std::string> words_, names_;
};

}  // namespace pipetrain::templates
