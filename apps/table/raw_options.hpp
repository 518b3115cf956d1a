// Options as they were given, before their words are read.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace pipetrain {

struct RawOption {
  std::vector<std::string> words;
  std::string where;  // how an error names it: "--pp 0", "PIPETRAIN_PP=0", "run.toml:3: pp = 0"
  std::string place;  // "PIPETRAIN_PP", "run.toml:3"; empty: the command line
};
using RawOptions = std::map<std::string, RawOption>;  // by option name; a switch has the word "on" or "off"

}  // namespace pipetrain
