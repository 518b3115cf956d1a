#include <algorithm>

#include "data/templates/values/characters.hpp"
#include "data/tokenizers/text/utf8.hpp"

namespace pipetrain::templates {
namespace {

bool ends_line(char32_t code) {
  return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 || code == 0x2028 || code == 0x2029;
}

// Returns the words of a text.
std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  std::size_t begin = 0;
  for (std::size_t at = 0, end = 0; at < text.size(); at = end) {
    if (!is_python_space(next_code_point(text, end))) continue;
    if (at > begin) words.push_back(text.substr(begin, at - begin));
    begin = end;
  }
  if (begin < text.size()) words.push_back(text.substr(begin));
  return words;
}

std::size_t begin_of(std::string_view text, std::string_view word) {
  return static_cast<std::size_t>(word.data() - text.data());
}

}  // namespace

std::vector<std::string_view> lines_of(std::string_view text, bool with_ends) {
  std::vector<std::string_view> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0, end = 0; at < text.size(); at = end) {
    const char32_t code = next_code_point(text, end);
    if (!ends_line(code)) continue;
    if (code == '\r' && end < text.size() && text[end] == '\n') ++end;
    lines.push_back(text.substr(begin, (with_ends ? end : at) - begin));
    begin = end;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::vector<std::string_view> split_at_space(std::string_view text, std::int64_t most, bool from_right) {
  std::vector<std::string_view> words = words_of(text);
  if (most < 0 || std::ssize(words) <= most) return words;
  const auto cuts = static_cast<std::ptrdiff_t>(most);
  if (from_right) {
    std::vector<std::string_view> kept(words.end() - cuts, words.end());
    const std::string_view last = *(words.end() - cuts - 1);
    kept.insert(kept.begin(), text.substr(0, begin_of(text, last) + last.size()));
    return kept;
  }
  std::vector<std::string_view> kept(words.begin(), words.begin() + cuts);
  kept.push_back(text.substr(begin_of(text, words[static_cast<std::size_t>(most)])));
  return kept;
}

std::vector<std::string_view> split_at(std::string_view text, std::string_view separator, std::int64_t most, bool from_right) {
  std::vector<std::string_view> parts;
  while (most < 0 || std::ssize(parts) < most) {
    const std::size_t found = from_right ? text.rfind(separator) : text.find(separator);
    if (found == std::string_view::npos) break;
    const std::string_view before = text.substr(0, found), behind = text.substr(found + separator.size());
    parts.push_back(from_right ? behind : before);
    text = from_right ? before : behind;
  }
  parts.push_back(text);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to, std::int64_t most) {
  std::string out;
  std::size_t done = 0;
  for (std::int64_t count = 0; most < 0 || count < most; ++count) {
    if (from.empty()) {
      out += to;
      if (done == text.size()) return out;
      const std::size_t size = character_size(text, done);
      out += text.substr(done, size);
      done += size;
      continue;
    }
    const std::size_t found = text.find(from, done);
    if (found == std::string_view::npos) break;
    out.append(text, done, found - done).append(to);
    done = found + from.size();
  }
  return out.append(text, done, std::string_view::npos);
}

}  // namespace pipetrain::templates
