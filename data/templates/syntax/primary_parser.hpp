// Reads primaries: names, literals, and expressions in brackets. Internal to data/.
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

// All methods that read throw TemplateFault with the line.
class PrimaryParser {
 public:
  // Both arguments must outlive this.
  PrimaryParser(TokenReader& tokens, NestedExpressions& nested) : tokens_(tokens), nested_(nested) {}

  Expression primary();
  // Reads the constant or name that this token begins.
  Expression literal(Token token);
  // Returns true where the current token begins an operand.
  bool begins() const;

  // words() has every name, attribute and string that was read, names() the names that were read since the caller emptied it.
  const std::set<std::string>& words() const { return words_; }
  std::set<std::string>& names() { return names_; }
  void add_word(const std::string& word) { words_.insert(word); }

 private:
  Expression list();
  Expression dict();

  TokenReader& tokens_;
  NestedExpressions& nested_;
  std::set<std::string> words_, names_;
};

}  // namespace pipetrain::templates
