#include <fmt/format.h>

#define TOML_HEADER_ONLY 1
#define TOML_MAX_NESTED_VALUES 16
// toml++ asserts some of what it checks afterwards, and files that are not TOML break it: they are to end in its error.
#define TOML_ASSERT(expression) static_cast<void>(0)
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/option_layers.hpp"
#include "core/error.hpp"
#include "files/file_io.hpp"
#include "files/json.hpp"

namespace pipetrain {

namespace {

using nlohmann::json;

constexpr std::size_t largest_file = std::size_t{512} << 10;  // TOML takes up to 150 times its size in memory

[[noreturn]] void fail(const std::string& where, const std::string& why) {
  throw Error(ErrorKind::input, fmt::format("{}: {}", where, why));
}

std::string read_options(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) fail("--config " + path, "is a folder; give a .toml or .json file");
  try {
    std::string text = read_text(path, largest_file);
    if (!text.empty()) return text;
  } catch (const Error& error) {
    fail("--config " + std::string(error.what()), "give a .toml or .json file with options");
  }
  fail("--config " + path, "is empty; give a .toml or .json file with options");
}

// toml++ makes a table for every dot of a key and frees them one inside the other: a key of a million dots overflows the stack.
void check_dots(const std::string& path, std::string_view text) {
  constexpr std::ptrdiff_t most_dots = 256;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::string_view here = text.substr(0, text.find('\n'));
    if (std::count(here.begin(), here.end(), '.') > most_dots)
      fail(fmt::format("{}:{}", path, line), fmt::format("has more than {} dots in a line; break it up", most_dots));
    text.remove_prefix(std::min(here.size() + 1, text.size()));
  }
}

// TOML values become JSON ones, so that one function reads both. Dates become an empty object, which no option takes.
json to_json(const toml::node& node) {
  if (const auto* value = node.as_string()) return value->get();
  if (const auto* value = node.as_integer()) return value->get();
  if (const auto* value = node.as_floating_point()) return value->get();
  if (const auto* value = node.as_boolean()) return value->get();
  if (const auto* array = node.as_array()) {
    json values = json::array();
    for (const toml::node& element : *array) values.push_back(to_json(element));
    return values;
  }
  json members = json::object();
  if (const auto* members_of = node.as_table())
    for (const auto& [key, member] : *members_of) members[std::string(key.str())] = to_json(member);
  return members;
}

std::string word_of(const json& value, const std::string& where) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "on" : "off";
  if (value.is_number_integer()) return value.dump();
  if (value.is_number_float()) {  // dump() would write null for nan
    const double number = value.get<double>();
    const bool large_integer = std::fabs(number) >= 0x1p63 && std::fabs(number) < 1e25;  // so that its range is what is wrong
    return large_integer ? fmt::format("{:.0f}", number) : fmt::format("{}", number);
  }
  fail(where, "has no single value; write a string, a number, true or false");
}

bool takes_number(const OptionSpec& spec) {
  constexpr std::string_view words = " N V K M P X S T RATE SECONDS ";
  return words.find(" " + spec.value + " ") != words.npos;
}

// A feature of a DeepSpeed file that is turned off: {"enabled": false}, {"device": "none"}, or {"stage": 0} with nothing
// offloaded.
bool is_disabled_section(const json& value) {
  if (!value.is_object()) return false;
  if (value.contains("enabled")) return value["enabled"] == false;
  if (value.contains("device")) return value["device"].is_null() || value["device"] == "none";
  if (!value.contains("stage") || value["stage"] != 0) return false;
  return std::all_of(value.items().begin(), value.items().end(), [](const auto& member) {
    return !member.key().starts_with("offload") || member.value().is_null() || is_disabled_section(member.value());
  });
}

// The same in one word, for what is off here unless it is asked for.
bool is_off_anyway(const std::string& name, const json& value) {
  static const std::set<std::string> names = {"fp16",
                                              "bf16",
                                              "bfloat16",
                                              "zero-optimization",
                                              "zero-stage",
                                              "cpu-offload",
                                              "use-distributed-optimizer",
                                              "grad-checkpoint",
                                              "gradient-checkpoint",
                                              "gradient-checkpointing",
                                              "do-eval",
                                              "predict-with-generate"};
  return (value == false || value == 0 || value.is_null()) && names.count(name) != 0;
}

// The name under which a bf16 that is turned off waits for settle_bf16().
constexpr const char* bf16_off = "bf16";

void add_option(const std::vector<OptionSpec>& table, const std::string& place, const std::string& key, const json& value,
                RawOptions& options) {
  std::string name = key;
  std::replace(name.begin(), name.end(), '_', '-');
  const OptionSpec* spec = find_option(table, name);
  if ((!spec || !spec->built) && (is_disabled_section(value) || is_off_anyway(name, value))) {
    const std::string where = fmt::format("{}: {}", place, key);
    if (name == "bf16" || name == "bfloat16") options[bf16_off] = {{"fp32"}, where + " is off", place};
    return;
  }
  if (!spec) fail_unknown_option(table, name, fmt::format("{}: {}", place, key));
  if (name == "config" || name == "help" || name == "version")
    fail(fmt::format("{}: {}", place, key), "cannot stand in a file; give it on the command line");
  if (value.is_null() || (value == "auto" && takes_number(*spec))) return;  // DeepSpeed's word for the default
  const std::string where = fmt::format("{}: {}", place, key);
  RawOption option;
  option.place = place;
  if (value.is_array()) {
    for (const json& element : value) option.words.push_back(word_of(element, where));
    if (option.words.empty()) fail(where, "is an empty list; give a value or leave it out");
    if (!spec->many) option.words = {fmt::format("{}", fmt::join(option.words, ","))};
  } else {
    option.words = {word_of(value, where)};
  }
  option.where = fmt::format("{} = {}", where, fmt::join(option.words, " "));
  if (!options.emplace(name, std::move(option)).second) fail(where, "stands twice in this file; keep one");
}

// bf16 is what a GPU computes in here unless told otherwise: where a file turns it off, and names no precision, fp32 is meant.
void settle_bf16(const std::vector<OptionSpec>& table, RawOptions& options) {
  const auto off = options.extract(bf16_off);
  if (off.empty() || !find_option(table, "precision")) return;
  const auto [precision, added] = options.try_emplace("precision", off.mapped());
  if (!added && precision->second.words.back() == "bf16")
    fail(off.mapped().where, "this file's precision is bf16; keep one of them");
}

}  // namespace

RawOptions read_config_file(const std::vector<OptionSpec>& table, const std::string& path) {
  const std::string text = read_options(path);
  const std::string ending = std::filesystem::path(path).extension().string();
  if (ending != ".json" && ending != ".toml")
    fail("--config " + path, "the ending is neither .toml nor .json; name the file after what it is");
  RawOptions options;
  if (ending == ".json") {
    std::set<std::string> keys;
    const JsonLimits limits{.comments = true};  // they are welcome in a file people write
    read_json_members(whole_text(text), {path}, limits, [&](JsonMember&& member) {
      if (!keys.insert(member.key).second) return false;
      add_option(table, fmt::format("{}:{}", path, member.line), member.key, member.value, options);
      return true;
    });
  } else {
    check_dots(path, text);
    try {
      for (const auto& [key, node] : toml::parse(text, path))
        add_option(table, fmt::format("{}:{}", path, node.source().begin.line), std::string(key.str()), to_json(node), options);
    } catch (const toml::parse_error& error) {
      fail(fmt::format("{}:{}", path, error.source().begin.line), fmt::format("is not TOML ({})", error.description()));
    }
  }
  settle_bf16(table, options);
  return options;
}

}  // namespace pipetrain
