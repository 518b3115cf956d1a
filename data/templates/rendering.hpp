// Rendering is the text that a template makes, and where the model's answers lie in it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace pipetrain::templates {

struct TextSpan {
  std::size_t begin = 0, end = 0;  // in bytes
};

struct Rendering {
  std::string text;
  // The ranges that {% generation %} marks, in order. Nothing is known of marks inside macros, of which the text may be moved.
  std::vector<TextSpan> generations;
  bool has_hidden_generation = false;
};

}  // namespace pipetrain::templates
