// A reader of C++ that finds functions: where each begins and ends, and how many parameters it has. It knows no types
// and expands no macros, which suffices for code laid out by clang-format.
#pragma once

#include <string>
#include <vector>

namespace pipetrain::structure {

struct Function {
  std::string name;  // with the class in front if it is written so: "Trainer::step"
  int line = 0;      // its first line, counted from 1
  int lines = 0;     // to its closing brace; 0 for a declaration
  int parameters = 0;
  bool on_device = false;  // a CUDA kernel, or a function that kernels call
};

// Returns definitions and declarations at namespace and class scope, in order. The contents of a function are part of
// it. TEST_CASE and the like are functions of that name.
std::vector<Function> functions_of(const std::string& code);

}  // namespace pipetrain::structure
