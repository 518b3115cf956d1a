#include "apps/table/wrapped_text.hpp"

#include <algorithm>

namespace pipetrain {

std::string wrapped_text(const std::string& text, const TextColumn& column) {
  std::string result, line;
  const auto flush = [&] {
    if (!result.empty()) result.append("\n").append(column.indent, ' ');
    result += line;
    line.clear();
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (!line.empty() && column.indent + line.size() + 1 + (end - at) > column.width) flush();
    if (!line.empty()) line += ' ';
    line.append(text, at, end - at);
    at = end + 1;
  }
  flush();
  return result;
}

}  // namespace pipetrain
