// Configuration files of DeepSpeed, torchtitan and Megatron-LM as options of ours.
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

// One key of a file: "optimizer.params.lr", its value, and where it stands, "ds.json:3".
struct ForeignSetting {
  std::string key;
  Json value;
  std::string place;
};

// The leaves of a value that may hold others: "optimizer" gives "optimizer.type", "optimizer.params.lr", ... An empty object
// gives nothing.
void add_leaves(const std::string& key, const Json& value, const std::string& place, std::vector<ForeignSetting>& settings);

// What the settings of one file ask for here. "auto" and null ask for the default; sections that the file turns off ask for
// nothing. An option without words must be given by another layer, the command line or the environment: its `where` is the
// error else. Throws Error(input) for a key that means nothing here, naming it and, where there is one, our option.
RawOptions foreign_options(const OptionRows& table, ForeignSystem system, std::vector<ForeignSetting> settings);

// A text of arguments as a shell would split it: words, quotes, # comments and \ at the end of a line. Each "--key" takes the
// words up to the next as its value: none is true, several are a list. Throws Error(input).
std::vector<ForeignSetting> parse_argument_text(std::string_view text, const std::string& path);

}  // namespace pipetrain
