// Runs the program under test as a user's shell would.
#pragma once

#include <algorithm>
#include <string>

#include "catch.hpp"
#include "paths.hpp"
#include "run_program.hpp"

namespace pipetrain {

// The shell splits `arguments` and `variables` (NAME=VALUE ...).
inline Result run(const std::string& arguments, const std::string& variables = "") {
  return run_program(program_path(), arguments, variables);
}

// Checks that the program refuses this like every mistake: status 2, nothing on stdout, and one line on stderr, which
// is returned without "pipetrain: error: " and its end.
inline std::string refused(const std::string& arguments, const std::string& variables = "") {
  const Result result = run(arguments, variables);
  INFO(arguments << ": " << result.out << result.err);
  CHECK(result.status == 2);
  CHECK(result.out.empty());
  CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  const std::string begin = "pipetrain: error: ";
  REQUIRE(result.err.substr(0, begin.size()) == begin);
  return result.err.substr(begin.size(), result.err.size() - begin.size() - 1);
}

}  // namespace pipetrain
