// The keys of rows that hold their texts.
#pragma once

#include <string>
#include <vector>

namespace pipetrain {

struct TextKeys {
  std::vector<std::string> names = {"text"};  // in the order of a row's texts
  bool chosen = false;                        // by the user; then other keys of rows with such texts are ignored
};

}  // namespace pipetrain
