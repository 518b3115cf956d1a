#include "apps/options/operands.hpp"

#include <utility>

namespace pipetrain {

std::vector<std::string> take_operands(const OptionRows& table, std::vector<std::string>& arguments) {
  std::vector<std::string> operands, options;
  bool only_operands = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string& argument = arguments[i];
    if (only_operands || argument.empty() || argument.front() != '-') {
      operands.push_back(std::move(argument));
    } else if (argument == "--") {
      only_operands = true;
    } else {
      const OptionSpec* spec = argument.starts_with("--") ? find_option(table, std::string_view(argument).substr(2)) : nullptr;
      const bool value_follows = spec && !spec->value.empty() && i + 1 < arguments.size();
      options.push_back(std::move(argument));
      if (value_follows) options.push_back(std::move(arguments[++i]));
    }
  }
  arguments = std::move(options);
  return operands;
}

}  // namespace pipetrain
