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
  // The table must outlive this.
  OptionValues(const OptionRows& table, RawOptions options) : table_(&table), options_(std::move(options)) {}

  bool given(const std::string& name) const { return options_.count(name) != 0; }
  // Returns where the user gave the option, or "--name" if nobody did.
  std::string where(const std::string& name) const;
  [[noreturn]] void fail(const std::string& name, const std::string& why) const;

  std::optional<std::string> text(const std::string& name) const;  // not empty
  std::vector<std::string> list(const std::string& name) const;
  // These check the word against the range or the choices of the option's row. Numbers are finite.
  std::optional<std::int64_t> integer(const std::string& name) const;
  std::optional<double> number(const std::string& name) const;
  std::vector<double> numbers(const std::string& name) const;  // with commas between; empty: not given
  // Returns the place of the word among the choices. Others get the list, and the nearest when there is one.
  std::optional<std::size_t> choice(const std::string& name) const;
  // Returns the same for a range that depends on other options.
  std::optional<std::int64_t> integer(const std::string& name, const IntegerRange& range) const;

  std::optional<std::uint64_t> unsigned_integer(const std::string& name) const;
  std::optional<bool> on_off(const std::string& name) const;
  // Returns where the options that did not come from the command line are written.
  OptionPlaces places() const;
  // Reads the word as the option's row says. The option must be given.
  SettingValue value(const std::string& name) const;

 private:
  const std::string* word(const std::string& name) const;
  double number(const std::string& name, std::string_view word) const;
  // The reader of the option's row, which is of that kind.
  template <class Reader>
  const Reader& reader(const std::string& name) const;

  const OptionRows* table_;
  RawOptions options_;
};

// on, true, yes, 1, or off, false, no, 0, in any case; empty for other words.
std::optional<bool> word_of_switch(std::string_view word);

}  // namespace pipetrain
