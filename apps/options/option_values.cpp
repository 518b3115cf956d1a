#include "apps/options/option_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "core/text/nearest_name.hpp"

namespace pipetrain {

namespace {

// Parses the whole word as a number; no value if it is none. Sets `out_of_range` if it is a number too large for T.
template <class T>
std::optional<T> parse(std::string_view word, bool& out_of_range) {
  if (word.starts_with('+')) word.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  out_of_range = error == std::errc::result_out_of_range && end == word.data() + word.size();
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<bool> word_of_switch(std::string_view word) {
  const std::string lower = normalised_name(word);
  if (lower == "on" || lower == "true" || lower == "1" || lower == "yes") return true;
  if (lower == "off" || lower == "false" || lower == "0" || lower == "no") return false;
  return std::nullopt;
}

const std::string* OptionValues::word(const std::string& name) const {
  const auto option = options_.find(name);
  return option == options_.end() ? nullptr : &option->second.words.back();
}

std::string OptionValues::where(const std::string& name) const {
  const auto option = options_.find(name);
  return option == options_.end() ? "--" + name : option->second.where;
}

void OptionValues::fail(const std::string& name, const std::string& why) const {
  throw Error(ErrorKind::input, fmt::format("{}: {}", where(name), why));
}

std::optional<std::string> OptionValues::text(const std::string& name) const {
  const std::string* found = word(name);
  if (!found) return std::nullopt;
  if (found->empty()) fail(name, "is empty; give a value or leave it out");
  return *found;
}

std::vector<std::string> OptionValues::list(const std::string& name) const {
  const auto option = options_.find(name);
  if (option == options_.end()) return {};
  for (const std::string& element : option->second.words)
    if (element.empty()) fail(name, "has an empty value; leave it out");
  return option->second.words;
}

template <class Reader>
const Reader& OptionValues::reader(const std::string& name) const {
  const OptionSpec* spec = find_option(*table_, name);
  assert(spec && std::holds_alternative<Reader>(spec->reader));
  return std::get<Reader>(spec->reader);
}

std::optional<std::int64_t> OptionValues::integer(const std::string& name) const {
  return given(name) ? integer(name, reader<IntegerRange>(name)) : std::nullopt;
}

std::optional<std::int64_t> OptionValues::integer(const std::string& name, const IntegerRange& range) const {
  const std::string* found = word(name);
  if (!found) return std::nullopt;
  bool out_of_range = false;
  const auto value = parse<std::int64_t>(*found, out_of_range);
  if (!value && !out_of_range) fail(name, fmt::format("must be an integer of at least {}", range.least));
  if (value && *value < range.least) fail(name, fmt::format("must be at least {}", range.least));
  if (!value || *value > range.most) fail(name, fmt::format("must be from {} to {}", range.least, range.most));
  return value;
}

std::optional<std::uint64_t> OptionValues::unsigned_integer(const std::string& name) const {
  const std::string* found = word(name);
  if (!found) return std::nullopt;
  bool out_of_range = false;
  const auto value = parse<std::uint64_t>(*found, out_of_range);
  if (!value) fail(name, fmt::format("must be an integer from 0 to {}", std::numeric_limits<std::uint64_t>::max()));
  return value;
}

std::optional<double> OptionValues::number(const std::string& name) const {
  const std::string* found = word(name);
  if (!found) return std::nullopt;
  return number(name, *found);
}

std::vector<double> OptionValues::numbers(const std::string& name) const {
  std::vector<double> values;
  const std::string* found = word(name);
  for (std::size_t at = 0; found && at <= found->size();) {
    const std::size_t end = std::min(found->find(',', at), found->size());
    values.push_back(number(name, std::string_view(*found).substr(at, end - at)));
    at = end + 1;
  }
  return values;
}

double OptionValues::number(const std::string& name, std::string_view word) const {
  const auto& range = reader<NumberRange>(name);
  bool out_of_range = false;
  const auto value = parse<double>(word, out_of_range);
  const bool fits = value && std::isfinite(*value) && (range.above ? *value > range.minimum : *value >= range.minimum) &&
                    (!range.has_maximum || *value < range.maximum || (range.with_maximum && *value == range.maximum));
  if (fits || (value && range.or_zero && *value == 0)) return *value;
  if (range.with_maximum && !range.above)
    fail(name, fmt::format("must be {}a number from {} to {}", range.or_zero ? "0 or " : "", range.minimum, range.maximum));
  const std::string upper =
      range.has_maximum ? fmt::format(" and {} {}", range.with_maximum ? "at most" : "below", range.maximum) : "";
  fail(name, fmt::format("must be a number {} {}{}", range.above ? "above" : "of at least", range.minimum, upper));
}

std::optional<bool> OptionValues::on_off(const std::string& name) const {
  const std::string* found = word(name);
  if (!found) return std::nullopt;
  if (const auto value = word_of_switch(*found)) return value;
  fail(name, "must be on or off");
}

OptionPlaces OptionValues::places() const {
  OptionPlaces places;
  for (const auto& [name, option] : options_)
    if (!option.place.empty()) places.emplace(name, option.place);
  return places;
}

std::optional<std::size_t> OptionValues::choice(const std::string& name) const {
  const std::string* found = word(name);
  if (!found) return std::nullopt;
  const Choices& choices = reader<Choices>(name);
  const auto at = std::find(choices.begin(), choices.end(), *found);
  if (at != choices.end()) return static_cast<std::size_t>(at - choices.begin());
  const auto nearest = nearest_name(*found, choices);
  fail(name, fmt::format("must be one of {}{}", fmt::join(choices, ", "),
                         nearest ? fmt::format("; did you mean {}?", *nearest) : std::string()));
}

SettingValue OptionValues::value(const std::string& name) const {
  const SettingReader& reader = find_option(*table_, name)->reader;
  if (std::holds_alternative<IntegerRange>(reader)) return *integer(name);
  if (std::holds_alternative<UnsignedInteger>(reader)) return *unsigned_integer(name);
  if (std::holds_alternative<NumberRange>(reader)) return *number(name);
  if (std::holds_alternative<OnOff>(reader)) return *on_off(name);
  if (std::holds_alternative<Choices>(reader)) return static_cast<std::int64_t>(*choice(name));
  return *text(name);
}

}  // namespace pipetrain
