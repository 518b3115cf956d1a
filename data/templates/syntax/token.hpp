// The tokens of a template. Internal to data/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pipetrain::templates {

struct Token {
  enum class Kind { data, variable_begin, variable_end, block_begin, block_end, name, string, integer, real, sign, end };
  Kind kind = Kind::end;
  std::string text;  // of data and strings their content, of numbers the digits without "_"
  int line = 0;

  bool is(Kind wanted, std::string_view wanted_text) const { return kind == wanted && text == wanted_text; }
  bool is_name(std::string_view name) const { return is(Kind::name, name); }
  bool is_sign(std::string_view sign) const { return is(Kind::sign, sign); }
};

// Returns the tokens of valid UTF-8; the last one is the end. Text between tags is data, without comments and without the
// white space that Jinja's trim_blocks, lstrip_blocks and the signs in its tags remove. Throws TemplateFault.
std::vector<Token> read_tokens(std::string_view source);

}  // namespace pipetrain::templates
