// A SettingRow describes one setting of a training run: its name and help, the words that it takes, and the member of
// RunSettings that keeps it. The command line uses these rows to read and explain settings, processes to compare them, profiles
// to store them, and descriptions of a run to name them.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "actors/training/job/run_settings.hpp"
#include "actors/training/job/setting_reader.hpp"

namespace pipetrain {

// The place of a setting in RunSettings.
struct SettingMember {
  SettingReader reader;
  // The value as text, empty where it is not set: equal text means equal bits.
  std::function<std::string(const RunSettings&)> text;
  // Null: whoever reads the settings has a function of its own for this one.
  std::function<void(RunSettings&, const SettingValue&)> set = nullptr;
};

// Settings are used beyond the command line: `compared` ones must be the same in all processes of a run, and profiles of the
// run keep the `profiled` ones.
enum SettingUse : unsigned { used_alone = 0, compared = 1, profiled = 2 };

// The phrase that names the setting in descriptions of the run if its value is not the default: ", loss in 4 chunks". The noun
// is counted; without one the value follows as it is.
struct SettingPhrase {
  std::string begin = {}, noun = {};
};

struct SettingRow {
  std::string name;   // "seq-len"
  std::string value;  // its name in help, "N"; empty: a switch, or the choices themselves
  std::string help;   // other settings stand in it as `seq-len`
  SettingMember member;
  unsigned uses = used_alone;
  // Help shows this text, in which {} stands for the default of RunSettings; an empty text stands for that default too.
  std::string default_value = {};
  SettingPhrase phrase = {};
  std::string group = {};  // the heading in help

  std::string default_text() const;
};

// Returns the rows in the order of help. They are made at the first call; thread-safe.
const std::vector<SettingRow>& setting_table();

// Returns the phrases of the settings that differ from their defaults: ", recompute full of 6 layers, loss in 4 chunks".
std::string described_settings(const JobSettings& settings);

namespace setting_members {

template <class Type>
struct Inner {
  using type = Type;
};
template <class Type>
struct Inner<std::optional<Type>> {
  using type = Type;
};

// Numbers as their shortest text that reads back as the same number.
template <class Type>
std::string text_of(const Type& value) {
  if constexpr (std::is_same_v<Type, bool>) {
    return value ? "on" : "off";
  } else if constexpr (std::is_same_v<Type, std::filesystem::path>) {
    return value.string();
  } else if constexpr (std::is_same_v<Type, std::chrono::milliseconds>) {
    return fmt::format("{}", static_cast<double>(value.count()) / 1000);
  } else {
    return fmt::format("{}", value);
  }
}
template <class Type>
std::string text_of(const std::optional<Type>& value) {
  return value ? text_of(*value) : "";
}

// Keeps a value in the member at the end of the path, such as &RunSettings::numerics, &Numerics::loss_chunks.
template <auto... path>
void set_member(RunSettings& run, const SettingValue& value) {
  auto& to = (run.*....*path);
  using Type = typename Inner<std::remove_reference_t<decltype(to)>>::type;
  const auto set = [&to](const auto& from) {
    if constexpr (std::is_same_v<Type, std::chrono::milliseconds>) {
      if constexpr (std::is_same_v<decltype(from), const std::int64_t&>) to = std::chrono::seconds(from);
    } else if constexpr (requires { static_cast<Type>(from); }) {
      to = static_cast<Type>(from);
    }
  };
  std::visit(set, value);
}

inline SettingMember special(SettingReader reader, std::function<std::string(const RunSettings&)> text,
                             std::function<void(RunSettings&, const SettingValue&)> set = nullptr) {
  return {std::move(reader), std::move(text), std::move(set)};
}

template <auto... path>
SettingMember member(SettingReader reader) {
  return special(
      std::move(reader), [](const RunSettings& run) { return text_of((run.*....*path)); }, set_member<path...>);
}
template <auto... path>
SettingMember integer(std::int64_t least = 1, std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
  return member<path...>(IntegerRange{least, most});
}
template <auto... path>
SettingMember number(const NumberRange& range = {}) {
  return member<path...>(range);
}
template <auto... path>
SettingMember on_off() {
  return member<path...>(OnOff{});
}
template <auto... path>
SettingMember text() {
  return member<path...>(AnyText{});
}
// The member is an enumeration, and the names are those of its values in their order.
template <auto... path>
SettingMember choice(const Choices& names) {
  const auto text = [names](const RunSettings& run) {
    const std::optional chosen = (run.*....*path);
    return chosen ? names[static_cast<std::size_t>(*chosen)] : "";
  };
  return special(names, text, set_member<path...>);
}

}  // namespace setting_members

}  // namespace pipetrain
