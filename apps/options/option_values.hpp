// From the words of an option to a checked value. Every error is "WHERE: RULE; what to do", kind input.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/options/option_layers.hpp"

namespace pipetrain {

class OptionValues {
 public:
  explicit OptionValues(RawOptions options) : options_(std::move(options)) {}

  bool given(const std::string& name) const { return options_.count(name) != 0; }
  // How the user gave it, or "--name" when nobody did.
  std::string where(const std::string& name) const;
  [[noreturn]] void fail(const std::string& name, const std::string& why) const;

  std::optional<std::string> text(const std::string& name) const;  // not empty
  std::vector<std::string> list(const std::string& name) const;
  std::optional<std::int64_t> integer(const std::string& name, std::int64_t minimum, std::int64_t maximum) const;
  std::optional<std::uint64_t> unsigned_integer(const std::string& name) const;

  struct Range {
    double minimum = 0;
    bool above = false;  // the minimum itself is excluded
    bool has_maximum = false;
    double maximum = 0;
    bool with_maximum = false;  // else it is excluded
    bool or_zero = false;       // 0 is allowed below the minimum

    static constexpr Range from_to(double minimum, double maximum) { return {minimum, false, true, maximum, true}; }
    static constexpr Range zero_or(double minimum, double maximum) { return {minimum, false, true, maximum, true, true}; }
  };
  std::optional<double> number(const std::string& name, const Range& range) const;  // always finite
  // Numbers with commas between, at least one of them; empty when the option is not given.
  std::vector<double> numbers(const std::string& name, const Range& range) const;

  std::optional<bool> on_off(const std::string& name) const;
  // Where the options that did not come from the command line stand.
  OptionPlaces places() const;
  // The place of the word in `choices`. Others get the list, and the nearest when there is one.
  std::optional<std::size_t> choice(const std::string& name, const std::vector<std::string>& choices) const;

 private:
  const std::string* word(const std::string& name) const;
  double number(const std::string& name, std::string_view word, const Range& range) const;

  RawOptions options_;
};

// on, true, yes, 1, or off, false, no, 0, in any case; empty for other words.
std::optional<bool> word_of_switch(std::string_view word);

}  // namespace pipetrain
