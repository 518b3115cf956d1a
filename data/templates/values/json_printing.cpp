#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/templates/values/printing.hpp"
#include "data/tokenizers/text/utf8.hpp"

namespace pipetrain::templates {
namespace {

std::string json_float(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
  return float_repr(number);
}

class JsonPrinter {
 public:
  explicit JsonPrinter(const JsonOptions& options) : options_(options) {}

  std::string print(const Value& value) {
    put(value, 0);
    return std::move(out_);
  }

 private:
  void put(const Value& value, int level) {
    if (out_.size() > most_printed_bytes) fail(fmt::format("a value prints as more than {} MiB", most_printed_bytes >> 20));
    if (const std::string* const text = value.text()) return put_text(*text);
    if (const Values* const elements = value.elements()) return put_array(*elements, level);
    if (const DictItems* const dict = value.dict()) return put_object(*dict, level);
    if (const auto scalar = scalar_text(value)) {
      out_ += *scalar;
      return;
    }
    fail(fmt::format("Object of type {} is not JSON serializable", type_name(value)));
  }

  static std::optional<std::string> scalar_text(const Value& value) {
    if (value.is<None>()) return "null";
    if (const bool* const truth = value.as<bool>()) return *truth ? "true" : "false";
    if (const auto integer = value.integer()) return std::to_string(*integer);
    if (const double* const real = value.as<double>()) return json_float(*real);
    if (value.is<LargeInteger>()) return repr(value);
    return std::nullopt;
  }

  void put_array(const Values& elements, int level) {
    if (elements.empty()) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    for (std::size_t i = 0; i < elements.size(); ++i) {
      begin_item(i == 0, level + 1);
      put(elements[i], level + 1);
    }
    end_items(level);
    out_ += ']';
  }

  void put_object(const DictItems& dict, int level) {
    if (dict.size() == 0) {
      out_ += "{}";
      return;
    }
    std::vector<DictItems::Item> items = dict.items();
    if (options_.sorts_keys)
      std::stable_sort(items.begin(), items.end(), [](const auto& a, const auto& b) { return compare(a.first, b.first) < 0; });
    out_ += '{';
    for (std::size_t i = 0; i < items.size(); ++i) {
      begin_item(i == 0, level + 1);
      put_text(key_text(items[i].first));
      out_ += options_.key_separator;
      put(items[i].second, level + 1);
    }
    end_items(level);
    out_ += '}';
  }

  static std::string key_text(const Value& key) {
    if (const std::string* const text = key.text()) return *text;
    if (const auto scalar = scalar_text(key)) return *scalar;
    fail(fmt::format("keys must be str, int, float, bool or None, not {}", type_name(key)));
  }

  void begin_item(bool is_first, int level) {
    if (!is_first) out_ += options_.item_separator;
    begin_line(level);
  }
  void end_items(int level) { begin_line(level); }
  void begin_line(int level) {
    if (!options_.has_indent) return;
    out_ += '\n';
    for (int i = 0; i < level; ++i) out_ += options_.indent;
  }

  void put_text(std::string_view text) {
    out_ += '"';
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      const char32_t code = next_code_point(text, at);
      if (const char* const escape = short_escape(code); escape != nullptr) {
        out_ += escape;
      } else if (code < 0x20 || (options_.ascii && code > 0x7E)) {
        put_escape(code);
      } else {
        out_ += text.substr(begin, at - begin);
      }
    }
    out_ += '"';
  }

  static const char* short_escape(char32_t code) {
    switch (code) {
      case '"':
        return "\\\"";
      case '\\':
        return "\\\\";
      case '\n':
        return "\\n";
      case '\r':
        return "\\r";
      case '\t':
        return "\\t";
      case '\b':
        return "\\b";
      case '\f':
        return "\\f";
      default:
        return nullptr;
    }
  }

  void put_escape(char32_t code) {
    if (code < 0x10000) {
      out_ += fmt::format("\\u{:04x}", static_cast<unsigned>(code));
      return;
    }
    const unsigned rest = static_cast<unsigned>(code) - 0x10000;
    out_ += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
  }

  const JsonOptions& options_;
  std::string out_;
};

}  // namespace

std::string json_of(const Value& value, const JsonOptions& options) { return JsonPrinter(options).print(value); }

}  // namespace pipetrain::templates
