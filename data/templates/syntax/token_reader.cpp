#include "data/templates/syntax/token_reader.hpp"

#include <fmt/format.h>

#include "data/templates/values/value.hpp"

namespace pipetrain::templates {
namespace {

using Kind = Token::Kind;

std::string shown(const Token& token) {
  switch (token.kind) {
    case Kind::end:
      return "end of the template";
    case Kind::block_end:
    case Kind::variable_end:
      return "end of the tag";
    default:
      return fmt::format("'{}'", token.text.substr(0, 40));
  }
}

}  // namespace

void TokenReader::fail_here(std::string why) const { throw TemplateFault{std::move(why), current().line}; }

Token TokenReader::take() {
  Token token = current();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool TokenReader::take_name(std::string_view name) {
  if (!current().is_name(name)) return false;
  take();
  return true;
}

bool TokenReader::take_sign(std::string_view sign) {
  if (!current().is_sign(sign)) return false;
  take();
  return true;
}

std::string TokenReader::expect_name() {
  if (current().kind != Kind::name) fail_expecting("a name");
  return take().text;
}

void TokenReader::expect_name(std::string_view name) {
  if (!take_name(name)) fail_expecting(fmt::format("'{}'", name));
}

void TokenReader::expect_sign(std::string_view sign) {
  if (!take_sign(sign)) fail_expecting(fmt::format("'{}'", sign));
}

void TokenReader::expect(Kind kind, const char* what) {
  if (current().kind != kind) fail_expecting(what);
  take();
}

void TokenReader::fail_expecting(std::string_view what) const {
  fail_here(fmt::format("{} is expected, not {}", what, shown(current())));
}

}  // namespace pipetrain::templates
