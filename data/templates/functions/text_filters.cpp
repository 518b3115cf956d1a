// Filters that take a text.
#include <fmt/format.h>

#include <algorithm>

#include "data/templates/functions/attributes.hpp"
#include "data/templates/functions/call_arguments.hpp"
#include "data/templates/functions/filters.hpp"
#include "data/templates/functions/operators.hpp"
#include "data/templates/values/characters.hpp"
#include "data/templates/values/iteration.hpp"
#include "data/templates/values/printing.hpp"
#include "data/tokenizers/text/unicode.hpp"
#include "data/tokenizers/text/utf8.hpp"

namespace pipetrain::templates {
namespace {

bool is_markup(const Value& value) { return value.is<Text>() && value.as<Text>()->is_markup; }

Value charged_text(Runtime& runtime, std::string text, bool markup = false) {
  runtime.charge_bytes(text.size());
  return Value(std::move(text), markup);
}

template <std::string (*Change)(std::string_view)>
Value change_case_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("case", arguments, {});
  return charged_text(runtime, Change(printed(input)), is_markup(input));
}

// Capitalizes words, which begin at the beginning and after -, white space and opening brackets.
std::string title_by_separators(std::string_view text) {
  std::string out;
  std::size_t word = 0;
  const auto add_word = [&](std::size_t end) {
    if (end == word) return;
    const std::size_t first = word + character_size(text, word);
    out += upper_case(text.substr(word, first - word)) + lower_case(text.substr(first, end - first));
  };
  for (std::size_t at = 0, next = 0; at < text.size(); at = next) {
    const char32_t code = next_code_point(text, next);
    if (!is_python_space(code) &&
        (code > 0x7F || std::string_view("-({[<").find(static_cast<char>(code)) == std::string_view::npos))
      continue;
    add_word(at);
    out += text.substr(at, next - at);
    word = next;
  }
  add_word(text.size());
  return out;
}

Value trim_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("trim", arguments, {"chars"});
  const std::string text = printed(input);
  if (bound.find_some(0) == nullptr) return charged_text(runtime, std::string(stripped(text)), is_markup(input));
  return charged_text(runtime, std::string(stripped(text, bound.text(0))), is_markup(input));
}

Value replace_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("replace", arguments, {"old", "new", "count"}, 2);
  const std::string text = printed(input), old = printed(bound.at(0)), fresh = printed(bound.at(1));
  runtime.charge_bytes(text.size() + (text.size() + 1) / std::max<std::size_t>(old.size(), 1) * fresh.size());
  return Value(replaced(text, old, fresh, bound.find_some(2) == nullptr ? -1 : bound.integer(2, -1)));
}

Value indent_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("indent", arguments, {"width", "first", "blank"});
  if (input.text() == nullptr) fail(fmt::format("indent() takes a str, not '{}'", type_name(input)));
  const bool is_text = bound.find(0) != nullptr && bound.at(0).text() != nullptr;
  const std::int64_t width = is_text ? 0 : std::max<std::int64_t>(bound.integer(0, 4), 0);
  runtime.charge_bytes(static_cast<std::size_t>(width));
  const std::string space = is_text ? bound.text(0) : std::string(static_cast<std::size_t>(width), ' ');
  const bool first = bound.truth(1, false), blank = bound.truth(2, false);
  const std::string source = *input.text() + "\n";
  std::string out;
  bool is_first = true;
  for (const std::string_view line : lines_of(source)) {
    if (!is_first) out += '\n';
    if (is_first ? first : blank || !line.empty()) out += space;
    out += line;
    runtime.charge_bytes(space.size() + line.size());
    is_first = false;
  }
  return Value(std::move(out), is_markup(input));
}

Value truncate_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("truncate", arguments, {"length", "killwords", "end", "leeway"});
  const std::string end = bound.text_or(2, "...");
  const std::int64_t length = bound.integer(0, 255), leeway = bound.find_some(3) == nullptr ? 5 : bound.integer(3, 5);
  const auto end_size = static_cast<std::int64_t>(count_characters(end));
  if (length < end_size || leeway < 0) fail("truncate() needs a length of at least that of its end, and no negative leeway");
  const auto size = length_of(input);
  if (size && *size <= length + std::min<std::int64_t>(leeway, INT32_MAX)) return input;
  if (input.text() == nullptr) fail(fmt::format("truncate() takes a str, not '{}'", type_name(input)));
  const std::string& text = *input.text();
  std::string kept = text.substr(0, offset_of(text, length - end_size));
  if (!bound.truth(1, false)) kept = split_at(std::string(kept), " ", 1, true).front();
  return charged_text(runtime, kept + end);
}

Value center_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("center", arguments, {"width"});
  const Value method = get_attribute(Value(printed(input)), "center");
  return method.object()->call(runtime, {{Value(bound.integer(0, 80))}, {}});
}

Value wordcount_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("wordcount", arguments, {});
  const std::string text = printed(input);
  runtime.charge_steps(text.size() / 16);
  std::int64_t words = 0;
  bool in_word = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t code = next_code_point(text, at);
    const std::string one = to_utf8(code);
    const bool is_inside = code == '_' || is_all(one, TextClass::alphanumeric);
    words += is_inside && !in_word ? 1 : 0;
    in_word = is_inside;
  }
  return words;
}

Value string_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("string", arguments, {});
  return input.is<Text>() ? input : charged_text(runtime, printed(input));
}

Value safe_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("safe", arguments, {});
  return charged_text(runtime, printed(input), true);
}

Value escape_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("escape", arguments, {});
  return is_markup(input) ? input : charged_text(runtime, escaped_html(printed(input)), true);
}

Value format_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) fail("format() takes arguments either by position or by name");
  DictItems named;
  for (const auto& [name, value] : arguments.named) named.set(Value(name), value);
  const Value values = arguments.named.empty() ? make_tuple(arguments.positional) : make_dict(std::move(named));
  return percent_formatted(runtime, printed(input), values);
}

std::string url_quoted(const std::string& text, bool for_query) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain =
        byte < 0x80 && (std::isalnum(byte) != 0 || std::string_view("_.-~").find(c) != std::string_view::npos);
    out += is_plain || (c == '/' && !for_query) ? std::string(1, c)
           : for_query && c == ' '              ? "+"
                                                : fmt::format("%{:02X}", byte);
  }
  return out;
}

Value urlencode_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("urlencode", arguments, {});
  if (input.text() != nullptr || !try_iterate(input)) return charged_text(runtime, url_quoted(printed(input), false));
  std::string out;
  const Value pairs =
      input.dict() == nullptr ? input : ObjectPointer(std::make_shared<DictView>(*input.as<Dict>(), DictView::Kind::items));
  for (const Value& pair : values_of(runtime, pairs)) {
    if (pair.elements() == nullptr || pair.elements()->size() != 2) fail("urlencode() takes pairs of a key and a value");
    out += (out.empty() ? "" : "&") + url_quoted(printed(pair.elements()->front()), true) + "=" +
           url_quoted(printed(pair.elements()->back()), true);
  }
  return charged_text(runtime, std::move(out));
}

Value tojson_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonOptions options;
  options.ascii = bound.truth(0, false);
  options.sorts_keys = bound.truth(3, false);
  if (const Value* const indent = bound.find_some(1)) {
    options.has_indent = true;
    const std::int64_t width = indent->text() != nullptr ? 0 : std::max<std::int64_t>(bound.integer(1, 0), 0);
    if (width > 1000) fail("tojson() takes an indent of at most 1000");
    options.indent = indent->text() != nullptr ? *indent->text() : std::string(static_cast<std::size_t>(width), ' ');
    options.item_separator = ",";
  }
  if (const Value* const separators = bound.find_some(2)) {
    const Values* const both = separators->elements();
    if (both == nullptr || both->size() != 2 || both->front().text() == nullptr || both->back().text() == nullptr)
      fail("the separators of tojson() are a tuple of two strings");
    options.item_separator = *both->front().text();
    options.key_separator = *both->back().text();
  }
  runtime.charge_steps(input.extent().weight);
  return charged_text(runtime, json_of(input, options));
}

}  // namespace

const FilterTable& text_filters() {
  static const FilterTable table = {{"upper", change_case_filter<upper_case>},
                                    {"lower", change_case_filter<lower_case>},
                                    {"title", change_case_filter<title_by_separators>},
                                    {"capitalize", change_case_filter<capitalized>},
                                    {"trim", trim_filter},
                                    {"replace", replace_filter},
                                    {"indent", indent_filter},
                                    {"truncate", truncate_filter},
                                    {"center", center_filter},
                                    {"wordcount", wordcount_filter},
                                    {"string", string_filter},
                                    {"safe", safe_filter},
                                    {"escape", escape_filter},
                                    {"e", escape_filter},
                                    {"format", format_filter},
                                    {"urlencode", urlencode_filter},
                                    {"tojson", tojson_filter}};
  return table;
}

}  // namespace pipetrain::templates
