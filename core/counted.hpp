// Numbers with their nouns, for messages.
#pragma once

#include <cstdint>
#include <string>

namespace pipetrain {

// Returns "1 step", "2 steps" or, with the ending "es", "2 microbatches".
inline std::string counted(std::int64_t count, const std::string& thing, const std::string& ending = "s") {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : ending);
}

}  // namespace pipetrain
