#include "data/tokenizers/transforms/charsmap.hpp"

#include <fmt/format.h>

#include <utility>

#include "data/tokenizers/text/base64.hpp"
#include "data/tokenizers/text/unicode.hpp"
#include "data/tokenizers/text/utf8.hpp"

namespace pipetrain {
namespace {

// The units of darts-clone: bits 0-7 are the byte that leads here, 8 whether a key ends here, 9 whether the offset
// counts in 256, 10-30 the offset; the unit of a key's end has its value in bits 0-30.
std::uint32_t offset_of(std::uint32_t unit) { return (unit >> 10) << ((unit & (1U << 9)) >> 6); }
bool ends_key(std::uint32_t unit) { return (unit >> 8 & 1) == 1; }
bool is_led_to_by(std::uint32_t unit, unsigned char byte) { return (unit & 0x800000FF) == byte; }
std::uint32_t value_of(std::uint32_t unit) { return unit & 0x7FFFFFFF; }

std::uint32_t read_u32(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 4; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

class Precompiled : public TextNormalizer {
 public:
  explicit Precompiled(Charsmap rules) : rules_(std::move(rules)) {}

  void apply(NormalizedText& normalized) const override {
    const std::string& text = normalized.text;
    std::string& out = normalized.buffer;
    out.clear();
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = end_of_grapheme(text, at);
      append(std::string_view(text).substr(at, end - at), out);
      at = end;
    }
    if (out != text) normalized.front.refuse();
    normalized.text.swap(out);
  }

 private:
  void append(std::string_view grapheme, std::string& out) const {
    if (grapheme.size() <= Charsmap::most_bytes) {
      if (const char* text = rules_.find(grapheme)) {
        out += text;
        return;
      }
    }
    for (std::size_t at = 0; at < grapheme.size();) {
      const std::string_view character = grapheme.substr(at, utf8_length(grapheme[at]));
      const char* text = rules_.find(character);
      text != nullptr ? out.append(text) : out.append(character);
      at += character.size();
    }
  }

  Charsmap rules_;
};

}  // namespace

Charsmap::Charsmap(std::string_view bytes, const Component& component) {
  const std::size_t size = bytes.size() < 4 ? 0 : read_u32(bytes, 0);
  if (size == 0 || size % 4 != 0 || size > bytes.size() - 4) component.fail("\"precompiled_charsmap\" is not a table of rules");
  for (std::size_t at = 4; at < 4 + size; at += 4) units_.push_back(read_u32(bytes, at));
  texts_ = bytes.substr(4 + size);
  check_rules(component);
}

// Checks every key that find() can reach, but only once if keys share an end, since these have the same text.
void Charsmap::check_rules(const Component& component) const {
  struct Node {
    std::uint32_t base;  // children are at base ^ byte
    std::size_t depth;
  };
  const auto fail = [&](const char* why) { component.fail(fmt::format("\"precompiled_charsmap\" has a rule {}", why)); };
  std::vector<Node> nodes = {{offset_of(units_[0]), 0}};  // depth first
  std::vector<bool> seen(units_.size());
  std::string buffer;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto [base, depth] = nodes[i];
    for (std::uint32_t byte = 1; byte < 256; ++byte) {
      const std::uint32_t node = base ^ byte;
      if (node >= units_.size() || !is_led_to_by(units_[node], static_cast<unsigned char>(byte))) continue;
      if (seen[node]) continue;
      seen[node] = true;
      const std::uint32_t next = node ^ offset_of(units_[node]);
      if (!ends_key(units_[node])) {
        if (depth + 1 < most_bytes) nodes.push_back({next, depth + 1});
        continue;
      }
      if (next >= units_.size() || value_of(units_[next]) >= texts_.size()) fail("without a text");
      const std::string_view text = texts_.c_str() + value_of(units_[next]);
      if (valid_utf8_or_replaced(text, buffer).data() != text.data()) fail("whose text is not UTF-8");
    }
  }
}

const char* Charsmap::find(std::string_view text) const {
  std::uint32_t node = offset_of(units_[0]);
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    node ^= byte;
    if (byte == 0 || node >= units_.size() || !is_led_to_by(units_[node], byte)) return nullptr;
    const bool ends = ends_key(units_[node]);
    node ^= offset_of(units_[node]);
    if (ends) return texts_.c_str() + value_of(units_[node]);
  }
  return nullptr;
}

std::unique_ptr<TextNormalizer> make_precompiled(const Component& component) {
  const auto bytes = decode_base64(component.text("precompiled_charsmap"));
  if (!bytes) component.fail("\"precompiled_charsmap\" is not base64");
  return std::make_unique<Precompiled>(Charsmap(*bytes, component));
}

}  // namespace pipetrain
