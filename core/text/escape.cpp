#include "core/text/escape.hpp"

namespace pipetrain {
namespace {

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

}  // namespace

std::string escape_of(char c) {
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  if (c == '\t') return "\\t";
  constexpr const char* digits = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  return {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
}

std::string escape_controls(std::string_view text) {
  std::string line;
  line.reserve(text.size());
  for (const char c : text) is_control(c) ? line += escape_of(c) : line += c;
  return line;
}

}  // namespace pipetrain
