// --cut: where the model is cut into virtual stages.
#pragma once

#include "apps/options/option_values.hpp"
#include "model/config/cut.hpp"

namespace pipetrain {

struct StageCounts {
  int pp = 1, chunks = 1;
};

// Reads a cut such as "5,7,8,4"; empty when the option is not given. What depends on the model is checked with it, by
// cut_blocks(). Throws Error(input) for what is no list of counts above 0, and, where the virtual stages are known, for another
// number of them.
Cut read_cut(const OptionValues& values, const std::optional<StageCounts>& stages);

}  // namespace pipetrain
