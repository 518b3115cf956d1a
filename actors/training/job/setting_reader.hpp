// A SettingReader says which words a setting takes. The program that reads words checks them against it; see setting_row.hpp.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

namespace pipetrain {

// Any text, or several of them, which are not empty.
struct AnyText {};
struct TextList {};

struct IntegerRange {
  std::int64_t least = 1, most = std::numeric_limits<std::int64_t>::max();
};

// From 0 to the largest of 64 bits.
struct UnsignedInteger {};

struct NumberRange {
  double minimum = 0;
  bool above = false;  // the minimum itself is excluded
  bool has_maximum = false;
  double maximum = 0;
  bool with_maximum = false;  // else it is excluded
  bool or_zero = false;       // 0 is allowed below the minimum

  static constexpr NumberRange from_to(double minimum, double maximum) { return {minimum, false, true, maximum, true}; }
  static constexpr NumberRange above_to(double minimum, double maximum) { return {minimum, true, true, maximum, true}; }
  static constexpr NumberRange from_to_below(double minimum, double maximum) { return {minimum, false, true, maximum}; }
  static constexpr NumberRange zero_or(double minimum, double maximum) { return {minimum, false, true, maximum, true, true}; }
};

struct OnOff {};

using Choices = std::vector<std::string>;

using SettingReader = std::variant<AnyText, TextList, IntegerRange, UnsignedInteger, NumberRange, OnOff, Choices>;

// The value that a reader makes of a word: a text, an integer or the index of a choice, a number, or on and off.
using SettingValue = std::variant<std::string, std::int64_t, std::uint64_t, double, bool>;

}  // namespace pipetrain
