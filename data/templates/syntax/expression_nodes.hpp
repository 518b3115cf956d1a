// Puts expressions together from their parts. Internal to data/.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "data/templates/syntax/ast.hpp"

namespace pipetrain::templates {

// A deeper tree is refused, so that functions may walk trees by recursion.
inline constexpr int deepest_expression = 200;

inline ExpressionPointer boxed(Expression value) { return std::make_unique<Expression>(std::move(value)); }

// Makes a node over others; the deepest of them has this depth. Throws TemplateFault for a tree that is too deep.
template <class Node>
Expression make_expression(Node node, int line, int depth = 0) {
  if (depth >= deepest_expression)
    throw TemplateFault{fmt::format("an expression is nested more than {} deep", deepest_expression), line};
  return {std::move(node), line, depth + 1};
}

inline int deepest_of(const Expressions& all) {
  int depth = 0;
  for (const Expression& one : all) depth = std::max(depth, one.depth);
  return depth;
}

}  // namespace pipetrain::templates
