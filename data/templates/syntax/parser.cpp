#include "data/templates/syntax/parser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "data/templates/syntax/expression_parser.hpp"
#include "data/templates/syntax/target_parser.hpp"

namespace pipetrain::templates {
namespace {

using Kind = Token::Kind;
using Names = std::vector<std::string_view>;

// The statements of jinja2/parser.py, of its extension loopcontrols, and {% generation %} of transformers.
class StatementParser {
 public:
  explicit StatementParser(std::vector<Token> tokens)
      : expressions_(std::move(tokens)), tokens_(expressions_.tokens()), targets_(expressions_) {}

  ParsedTemplate parse() {
    ParsedTemplate parsed;
    parsed.body = block({});
    parsed.words = expressions_.words();
    parsed.has_generation = has_generation_;
    return parsed;
  }

 private:
  // Reads up to a tag with one of these names and takes the name. Without names, reads to the end of the template.
  Block block(const Names& ends, std::string* end = nullptr) {
    if (++depth_ > deepest_block) tokens_.fail_here(fmt::format("blocks are nested more than {} deep", deepest_block));
    Block statements;
    while (true) {
      const Token token = tokens_.current();
      if (token.kind == Kind::end) {
        if (!ends.empty()) tokens_.fail_here(fmt::format("the template ends where '{}' is expected", ends.back()));
        break;
      }
      tokens_.take();
      if (token.kind == Kind::data) {
        statements.push_back({Data{token.text}, token.line});
      } else if (token.kind == Kind::variable_begin) {
        Expression value = expressions_.tuple();
        tokens_.expect(Kind::variable_end, "'}}'");
        statements.push_back({Output{std::move(value)}, token.line});
      } else {
        const auto found = std::find_if(ends.begin(), ends.end(), [&](auto name) { return tokens_.current().is_name(name); });
        if (found != ends.end()) {
          tokens_.take();
          if (end != nullptr) *end = *found;
          break;
        }
        statement(token.line, statements);
      }
    }
    --depth_;
    return statements;
  }

  void end_tag() { tokens_.expect(Kind::block_end, "'%}'"); }

  Block body(const Names& ends, std::string* end = nullptr) {
    tokens_.take_sign(":");
    end_tag();
    Block statements = block(ends, end);
    if (end == nullptr) end_tag();
    return statements;
  }

  void statement(int line, Block& statements) {
    using Read = Statement (StatementParser::*)();
    static const std::pair<std::string_view, Read> tags[] = {
        {"for", &StatementParser::for_loop},     {"if", &StatementParser::condition},
        {"set", &StatementParser::assignment},   {"macro", &StatementParser::macro},
        {"call", &StatementParser::call_block},  {"filter", &StatementParser::filter_block},
        {"with", &StatementParser::with},        {"generation", &StatementParser::generation},
        {"break", &StatementParser::break_loop}, {"continue", &StatementParser::continue_loop}};
    if (tokens_.current().is_name("print")) return print(line, statements);
    const auto* const tag =
        std::find_if(std::begin(tags), std::end(tags), [&](const auto& one) { return tokens_.current().is_name(one.first); });
    if (tag == std::end(tags)) refuse_tag();
    tokens_.take();
    statements.push_back((this->*tag->second)());
    statements.back().line = line;
  }

  [[noreturn]] void refuse_tag() {
    constexpr std::string_view others[] = {"extends", "include", "import", "from", "block", "autoescape"};
    const std::string name = tokens_.expect_name();
    if (std::find(std::begin(others), std::end(others), name) != std::end(others))
      tokens_.fail_here(fmt::format("the tag '{}' is not supported in a chat template", name));
    tokens_.fail_here(fmt::format("the tag '{}' is unknown, or closes nothing that is open", name));
  }

  void print(int line, Block& statements) {
    tokens_.take();
    while (tokens_.current().kind != Kind::block_end) {
      statements.push_back({Output{expressions_.expression()}, line});
      if (!tokens_.take_sign(",")) break;
    }
    end_tag();
  }

  Statement for_loop() {
    For loop;
    loop.target = targets_.target("in");
    tokens_.expect_name("in");
    loop.values = expressions_.tuple(false, "recursive");
    if (tokens_.take_name("if")) loop.condition = expressions_.expression();
    loop.is_recursive = tokens_.take_name("recursive");
    ++loops_;
    std::string end;
    loop.body = body({"else", "endfor"}, &end);
    --loops_;
    if (end == "else") {
      loop.otherwise = body({"endfor"});
    } else {
      end_tag();
    }
    return {std::move(loop)};
  }

  Statement condition() {
    If node;
    std::string end = "elif";
    while (end == "elif") {
      Expression condition = expressions_.tuple(false);
      Block statements = body({"elif", "else", "endif"}, &end);
      node.branches.push_back({std::move(condition), std::move(statements)});
    }
    if (end == "else") {
      node.otherwise = body({"endif"});
    } else {
      end_tag();
    }
    return {std::move(node)};
  }

  Statement break_loop() { return loop_control(true); }
  Statement continue_loop() { return loop_control(false); }
  Statement loop_control(bool is_break) {
    if (loops_ == 0) tokens_.fail_here(fmt::format("'{}' is outside of a loop", is_break ? "break" : "continue"));
    end_tag();
    return {LoopControl{is_break}};
  }

  Statement assignment() {
    Target assigned = targets_.target("", true);
    if (tokens_.take_sign("=")) {
      Expression value = expressions_.tuple();
      end_tag();
      return {Assignment{std::move(assigned), std::move(value)}};
    }
    BlockAssignment node;
    node.target = std::move(assigned);
    if (tokens_.take_sign("|")) node.filter = expressions_.filters_of_block();
    node.body = body({"endset"});
    return {std::move(node)};
  }

  // Reads a body that is a function of its own, which a break cannot leave.
  Block inner_body(std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    Block statements = body({end});
    loops_ = loops;
    return statements;
  }

  Statement with() {
    With node;
    while (tokens_.current().kind != Kind::block_end) {
      if (!node.values.empty()) tokens_.expect_sign(",");
      Target assigned = targets_.target("");
      tokens_.expect_sign("=");
      node.values.emplace_back(std::move(assigned), expressions_.expression());
    }
    node.body = body({"endwith"});
    return {std::move(node)};
  }

  Statement macro() {
    MacroDefinition node;
    node.name = tokens_.expect_name();
    node.signature.parameters = targets_.parameters();
    node.body = function_body(node.signature, "endmacro");
    return {std::move(node)};
  }

  Statement call_block() {
    CallBlock node;
    if (tokens_.current().is_sign("(")) node.signature.parameters = targets_.parameters();
    node.call = expressions_.expression();
    if (!std::holds_alternative<Call>(node.call.node)) tokens_.fail_here("a call block calls a macro");
    node.body = function_body(node.signature, "endcall");
    return {std::move(node)};
  }

  // Reads a body. A macro takes more arguments than it has parameters if its body names "kwargs" or "varargs".
  Block function_body(Signature& signature, std::string_view end) {
    auto outer = std::exchange(expressions_.names(), {});
    Block statements = inner_body(end);
    const auto& names = expressions_.names();
    signature.takes_caller = names.contains("caller");
    signature.takes_named = names.contains("kwargs");
    signature.takes_positional = names.contains("varargs");
    expressions_.names().merge(outer);
    return statements;
  }

  Statement filter_block() {
    FilterBlock node;
    node.filter = expressions_.filters_of_block();
    node.body = body({"endfilter"});
    return {std::move(node)};
  }

  Statement generation() {
    has_generation_ = true;
    return {Generation{inner_body("endgeneration")}};
  }

  ExpressionParser expressions_;
  TokenReader& tokens_;
  TargetParser targets_;
  int depth_ = 0, loops_ = 0;
  bool has_generation_ = false;
};

}  // namespace

ParsedTemplate parse_template(std::string_view source) { return StatementParser(read_tokens(source)).parse(); }

}  // namespace pipetrain::templates
