// The methods of str.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "data/templates/functions/call_arguments.hpp"
#include "data/templates/functions/methods.hpp"
#include "data/templates/values/characters.hpp"
#include "data/templates/values/iteration.hpp"

namespace pipetrain::templates {
namespace {

Value text_result(Runtime& runtime, const Value& self, std::string text) {
  runtime.charge_bytes(text.size());
  return Value(std::move(text), self.as<Text>()->is_markup);
}

template <std::string (*Change)(std::string_view)>
Value changed_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const BoundArguments bound("str", arguments, {});
  return text_result(runtime, self, Change(*self.text()));
}

template <Ends Side>
Value strip_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const BoundArguments bound("strip", arguments, {"chars"});
  if (bound.find_some(0) == nullptr) return text_result(runtime, self, std::string(stripped(*self.text(), {}, Side)));
  return text_result(runtime, self, std::string(stripped(*self.text(), bound.text(0), Side)));
}

Value list_of(Runtime& runtime, const Value& self, const std::vector<std::string_view>& parts) {
  runtime.charge_values(parts.size());
  runtime.charge_bytes(self.text()->size() + parts.size() * sizeof(std::string));
  Values values;
  for (const std::string_view part : parts) values.emplace_back(std::string(part), self.as<Text>()->is_markup);
  return make_list(std::move(values));
}

template <bool FromRight>
Value split_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const BoundArguments bound("split", arguments, {"sep", "maxsplit"});
  const std::int64_t most = bound.integer(1, -1);
  if (bound.find_some(0) == nullptr) return list_of(runtime, self, split_at_space(*self.text(), most, FromRight));
  if (bound.text(0).empty()) fail("empty separator");
  return list_of(runtime, self, split_at(*self.text(), bound.text(0), most, FromRight));
}

Value splitlines_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const BoundArguments bound("splitlines", arguments, {"keepends"});
  return list_of(runtime, self, lines_of(*self.text(), bound.truth(0, false)));
}

template <bool FromRight>
Value partition_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const BoundArguments bound("partition", arguments, {"sep"}, 1);
  const std::string& text = *self.text();
  const std::string& separator = bound.text(0);
  if (separator.empty()) fail("empty separator");
  const std::size_t found = FromRight ? text.rfind(separator) : text.find(separator);
  runtime.charge_bytes(text.size());
  if (found == std::string::npos)
    return FromRight ? make_tuple({Value(""), Value(""), self}) : make_tuple({self, Value(""), Value("")});
  return make_tuple({Value(text.substr(0, found)), Value(separator), Value(text.substr(found + separator.size()))});
}

// The range of the text that `start` and `end` of find(), count() and others select, and its beginning.
struct TextPart {
  std::string_view text;
  std::int64_t begin = 0;  // in characters
  bool is_after = false;   // begins after the text's end
};
TextPart part_of(const std::string& text, const BoundArguments& bound) {
  if (bound.find_some(1) == nullptr && bound.find_some(2) == nullptr) return {text, 0, false};
  const auto size = static_cast<std::int64_t>(count_characters(text));
  const auto place = [&](std::size_t index, std::int64_t otherwise) {
    if (bound.find_some(index) == nullptr) return otherwise;
    const std::int64_t given = bound.integer(index, 0);
    return given < 0 ? std::max<std::int64_t>(given + size, 0) : given;
  };
  const std::int64_t begin = place(1, 0), end = std::min(place(2, size), size);
  if (begin > size || begin > end) return {{}, begin, true};
  const std::size_t first = offset_of(text, begin);
  return {std::string_view(text).substr(first, offset_of(text, end) - first), begin, false};
}

template <bool IsEnd>
Value has_affix_method(Runtime&, const Value& self, const Arguments& arguments) {
  const BoundArguments bound(IsEnd ? "endswith" : "startswith", arguments, {"prefix", "start", "end"}, 1);
  const TextPart part = part_of(*self.text(), bound);
  const auto has = [&](const std::string& affix) {
    return !part.is_after && (IsEnd ? part.text.ends_with(affix) : part.text.starts_with(affix));
  };
  if (!bound.at(0).is<Tuple>()) return has(bound.text(0));
  return std::any_of(bound.at(0).elements()->begin(), bound.at(0).elements()->end(), [&](const Value& one) {
    if (one.text() == nullptr) fail(fmt::format("a tuple of strings is expected, not of {}", type_name(one)));
    return has(*one.text());
  });
}

enum class Search { find, rfind, index, rindex };
template <Search Kind>
Value find_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  constexpr bool from_right = Kind == Search::rfind || Kind == Search::rindex;
  const BoundArguments bound("find", arguments, {"sub", "start", "end"}, 1);
  runtime.charge_steps(self.text()->size() / 64);
  const TextPart part = part_of(*self.text(), bound);
  const std::size_t found = part.is_after ? std::string_view::npos
                            : from_right  ? part.text.rfind(bound.text(0))
                                          : part.text.find(bound.text(0));
  if (found != std::string_view::npos)
    return part.begin + static_cast<std::int64_t>(count_characters(part.text.substr(0, found)));
  if (Kind == Search::index || Kind == Search::rindex) fail("substring not found");
  return -1;
}

Value count_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const BoundArguments bound("count", arguments, {"sub", "start", "end"}, 1);
  runtime.charge_steps(self.text()->size() / 64);
  const TextPart part = part_of(*self.text(), bound);
  const std::string& wanted = bound.text(0);
  if (part.is_after) return 0;
  if (wanted.empty()) return static_cast<std::int64_t>(count_characters(part.text)) + 1;
  std::int64_t number = 0;
  for (std::size_t at = part.text.find(wanted); at != std::string_view::npos; at = part.text.find(wanted, at + wanted.size()))
    ++number;
  return number;
}

Value replace_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const BoundArguments bound("replace", arguments, {"old", "new", "count"}, 2);
  runtime.charge_bytes(self.text()->size() +
                       (self.text()->size() + 1) / std::max<std::size_t>(bound.text(0).size(), 1) * bound.text(1).size());
  return Value(replaced(*self.text(), bound.text(0), bound.text(1), bound.integer(2, -1)), self.as<Text>()->is_markup);
}

Value join_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const BoundArguments bound("join", arguments, {"iterable"}, 1);
  std::string result;
  const auto iterator = iterate(bound.at(0));
  for (bool is_first = true; const auto one = iterator->next(); is_first = false) {
    if (one->text() == nullptr) fail(fmt::format("join: an item of the type {} is not a str", type_name(*one)));
    if (!is_first) result += *self.text();
    result += *one->text();
    runtime.charge_bytes(self.text()->size() + one->text()->size());
  }
  return Value(std::move(result));
}

template <TextClass Class>
Value is_class_method(Runtime&, const Value& self, const Arguments& arguments) {
  const BoundArguments bound("str", arguments, {});
  return is_all(*self.text(), Class);
}

template <bool IsEnd>
Value remove_affix_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const BoundArguments bound("removeprefix", arguments, {"affix"}, 1);
  const std::string &text = *self.text(), &affix = bound.text(0);
  if (!(IsEnd ? text.ends_with(affix) : text.starts_with(affix))) return self;
  return text_result(runtime, self, IsEnd ? text.substr(0, text.size() - affix.size()) : text.substr(affix.size()));
}

enum class Side { left, right, center };
template <Side Where>
Value justify_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const BoundArguments bound("just", arguments, {"width", "fillchar"}, 1);
  const std::string fill = bound.text_or(1, " ");
  if (count_characters(fill) != 1) fail("The fill character must be exactly one character long");
  const auto size = static_cast<std::int64_t>(count_characters(*self.text()));
  const std::int64_t width = bound.integer(0, 0), missing = std::max<std::int64_t>(width - size, 0);
  runtime.charge_bytes(static_cast<std::size_t>(missing) * fill.size());
  const std::int64_t before = Where == Side::left ? 0 : Where == Side::right ? missing : missing / 2 + (missing & width & 1);
  std::string result;
  for (std::int64_t i = 0; i < before; ++i) result += fill;
  result += *self.text();
  for (std::int64_t i = before; i < missing; ++i) result += fill;
  return text_result(runtime, self, std::move(result));
}

Value zfill_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const BoundArguments bound("zfill", arguments, {"width"}, 1);
  const std::string& text = *self.text();
  const auto missing = std::max<std::int64_t>(bound.integer(0, 0) - static_cast<std::int64_t>(count_characters(text)), 0);
  runtime.charge_bytes(static_cast<std::size_t>(missing));
  const std::size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  return text_result(runtime, self,
                     text.substr(0, sign) + std::string(static_cast<std::size_t>(missing), '0') + text.substr(sign));
}

}  // namespace

Method find_text_method(std::string_view name) {
  static const std::map<std::string_view, Method> methods = {
      {"upper", changed_method<upper_case>},
      {"lower", changed_method<lower_case>},
      {"title", changed_method<title_case>},
      {"capitalize", changed_method<capitalized>},
      {"swapcase", changed_method<swapped_case>},
      {"casefold", changed_method<folded_case>},
      {"strip", strip_method<Ends::both>},
      {"lstrip", strip_method<Ends::left>},
      {"rstrip", strip_method<Ends::right>},
      {"split", split_method<false>},
      {"rsplit", split_method<true>},
      {"splitlines", splitlines_method},
      {"partition", partition_method<false>},
      {"rpartition", partition_method<true>},
      {"startswith", has_affix_method<false>},
      {"endswith", has_affix_method<true>},
      {"find", find_method<Search::find>},
      {"rfind", find_method<Search::rfind>},
      {"index", find_method<Search::index>},
      {"rindex", find_method<Search::rindex>},
      {"count", count_method},
      {"replace", replace_method},
      {"join", join_method},
      {"removeprefix", remove_affix_method<false>},
      {"removesuffix", remove_affix_method<true>},
      {"ljust", justify_method<Side::left>},
      {"rjust", justify_method<Side::right>},
      {"center", justify_method<Side::center>},
      {"zfill", zfill_method},
      {"isalpha", is_class_method<TextClass::alpha>},
      {"isalnum", is_class_method<TextClass::alphanumeric>},
      {"isdecimal", is_class_method<TextClass::decimal>},
      {"isdigit", is_class_method<TextClass::digit>},
      {"isnumeric", is_class_method<TextClass::numeric>},
      {"isspace", is_class_method<TextClass::space>},
      {"islower", is_class_method<TextClass::lower>},
      {"isupper", is_class_method<TextClass::upper>},
      {"istitle", is_class_method<TextClass::title>},
      {"isprintable", is_class_method<TextClass::printable>},
      {"isascii", is_class_method<TextClass::ascii>},
  };
  const auto found = methods.find(name);
  return found == methods.end() ? nullptr : found->second;
}

}  // namespace pipetrain::templates
