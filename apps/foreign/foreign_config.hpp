// Translates configuration files of DeepSpeed, torchtitan and Megatron-LM into options of this program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/table/option_spec.hpp"
#include "apps/table/raw_options.hpp"
#include "files/json_value.hpp"

namespace pipetrain {

enum class ForeignSystem { deepspeed, torchtitan, megatron };
const char* name_of(ForeignSystem system);

// One key of a file: "optimizer.params.lr", its value, and its location, "ds.json:3".
struct ForeignSetting {
  std::string key;
  Json value;
  std::string place;
};

// Adds the leaves of a value that may contain others: "optimizer" gives "optimizer.type", "optimizer.params.lr", ... An
// empty object gives nothing.
void add_leaves(const std::string& key, const Json& value, const std::string& place, std::vector<ForeignSetting>& settings);

// Returns the options that the settings of one file correspond to. "auto" and null give the default; sections that the
// file turns off give nothing. An option without words must be given by another layer, the command line or the
// environment; otherwise its `where` is the error. Throws Error(input) for a key without a meaning here, naming it and,
// if there is one, the option of this program.
RawOptions foreign_options(const OptionRows& table, ForeignSystem system, std::vector<ForeignSetting> settings);

// Splits a text of arguments as a shell would: words, quotes, # comments and \ at the end of a line. Each "--key" takes
// the words up to the next key as its value: no word means true, several are a list. Throws Error(input).
std::vector<ForeignSetting> parse_argument_text(std::string_view text, const std::string& path);

}  // namespace pipetrain
