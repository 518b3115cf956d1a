// A reader of C++ that finds functions: where each begins and ends, and how many parameters it has. It knows no types and
// expands no macros; that suffices for code that clang-format has laid out.
#pragma once

#include <string>
#include <vector>

namespace pipetrain::structure {

struct Function {
  std::string name;  // with the class in front where it is written so: "Trainer::step"
  int line = 0;      // where it begins, from 1
  int lines = 0;     // to its closing brace; 0 for a declaration
  int parameters = 0;
  bool on_device = false;  // a CUDA kernel, or a function that kernels call
};

// Definitions and declarations at namespace and class scope, in order. What stands inside a function counts as part of it.
// TEST_CASE and the like are functions of that name.
std::vector<Function> functions_of(const std::string& code);

}  // namespace pipetrain::structure
