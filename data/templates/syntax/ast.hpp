// The syntax tree of a template. Internal to data/.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "data/templates/values/value.hpp"

namespace pipetrain::templates {

struct Expression;
using ExpressionPointer = std::unique_ptr<Expression>;
using Expressions = std::vector<Expression>;

struct CallArguments {
  Expressions positional;
  std::vector<std::pair<std::string, ExpressionPointer>> named;
  ExpressionPointer more_positional, more_named;  // *list and **dict, or null
  int depth = 0;                                  // of the deepest expression
};

struct Constant {
  Value value;
};
struct Name {
  std::string name;
};
enum class UnaryOperator { negative, positive, logical_not };
struct Unary {
  UnaryOperator sign;
  ExpressionPointer operand;
};
enum class BinaryOperator { add, subtract, multiply, divide, floor_divide, modulo, power, logical_and, logical_or };
struct Binary {
  BinaryOperator sign;
  ExpressionPointer left, right;
};
enum class ComparisonOperator { equal, unequal, less, less_equal, greater, greater_equal, in, not_in };
struct Comparison {  // a < b <= c
  ExpressionPointer first;
  std::vector<std::pair<ComparisonOperator, ExpressionPointer>> rest;
};
struct Concatenation {  // a ~ b ~ c
  Expressions parts;
};
struct Conditional {                             // a if condition else b
  ExpressionPointer condition, then, otherwise;  // otherwise: null where there is none
};
struct ListDisplay {
  Expressions elements;
};
struct TupleDisplay {
  Expressions elements;
};
struct DictDisplay {
  std::vector<std::pair<ExpressionPointer, ExpressionPointer>> items;
};
struct Attribute {  // object.name
  ExpressionPointer object;
  std::string name;
};
struct Subscript {  // object[key]
  ExpressionPointer object, key;
};
struct Slice {  // object[begin:end:step], each of which may be null
  ExpressionPointer object, begin, end, step;
};
struct Call {
  ExpressionPointer callee;
  CallArguments arguments;
};
struct Filter {
  ExpressionPointer input;  // null: of a filter block, what the block writes
  std::string name;
  CallArguments arguments;
};
struct Test {  // input is name(arguments)
  ExpressionPointer input;
  std::string name;
  CallArguments arguments;
};

struct Expression {
  std::variant<Constant, Name, Unary, Binary, Comparison, Concatenation, Conditional, ListDisplay, TupleDisplay, DictDisplay,
               Attribute, Subscript, Slice, Call, Filter, Test>
      node;
  int line = 0;
  int depth = 1;  // of the tree
};

struct Statement;
using Block = std::vector<Statement>;

// The target of an assignment: a name, an attribute of a namespace, or a tuple of targets.
struct Target {
  std::string name, attribute;  // attribute: empty for a plain name
  std::vector<Target> parts;
  bool is_tuple = false;
  int line = 0;
};

struct Data {
  std::string text;
};
struct Output {
  Expression value;
};
struct Branch {
  Expression condition;
  Block body;
};
struct If {
  std::vector<Branch> branches;
  Block otherwise;
};
struct For {
  Target target;
  Expression values;
  std::optional<Expression> condition;
  bool is_recursive = false;
  Block body, otherwise;
};
struct LoopControl {
  bool is_break = false;
};
struct Assignment {
  Target target;
  Expression value;
};
struct BlockAssignment {  // {% set name | filter %}...{% endset %}
  Target target;
  std::optional<Expression> filter;
  Block body;
};
struct With {
  std::vector<std::pair<Target, Expression>> values;
  Block body;
};
struct Parameter {
  std::string name;
  std::optional<Expression> otherwise;
};
struct Signature {
  std::vector<Parameter> parameters;
  bool takes_caller = false, takes_named = false, takes_positional = false;  // the body names caller, kwargs, varargs
};
struct MacroDefinition {
  std::string name;
  Signature signature;
  Block body;
};
struct CallBlock {
  Expression call;  // a Call
  Signature signature;
  Block body;
};
struct FilterBlock {
  Expression filter;
  Block body;
};
struct Generation {  // the text that the model is to say, as transformers marks it
  Block body;
};

struct Statement {
  std::variant<Data, Output, If, For, LoopControl, Assignment, BlockAssignment, With, MacroDefinition, CallBlock, FilterBlock,
               Generation>
      node;
  int line = 0;
};

}  // namespace pipetrain::templates
