// TokenReader goes through the tokens of a template. Internal to data/.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/templates/syntax/token.hpp"

namespace pipetrain::templates {

// The methods that expect a token throw TemplateFault with the line where another one stands.
class TokenReader {
 public:
  explicit TokenReader(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& following() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  Token take();
  bool take_name(std::string_view name);
  bool take_sign(std::string_view sign);
  std::string expect_name();
  void expect_name(std::string_view name);
  void expect_sign(std::string_view sign);
  void expect(Token::Kind kind, const char* what);
  [[noreturn]] void fail_here(std::string why) const;
  [[noreturn]] void fail_expecting(std::string_view what) const;

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

}  // namespace pipetrain::templates
