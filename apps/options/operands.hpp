// Words of a command line that belong to no option, such as the A and B of `pipetrain compare A B`.
#pragma once

#include <string>
#include <vector>

#include "apps/options/option_table.hpp"

namespace pipetrain {

// Takes them out of `arguments`, so that options are left. What follows "--" is all operands.
std::vector<std::string> take_operands(const OptionRows& table, std::vector<std::string>& arguments);

}  // namespace pipetrain
