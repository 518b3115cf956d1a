// Runs a program as a user's shell would, for tests of its output and exit status.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "temp_folder.hpp"

namespace pipetrain {

inline std::string read_file(const std::filesystem::path& path) {
  std::ostringstream stream;
  stream << std::ifstream(path, std::ios::binary).rdbuf();
  return stream.str();
}

struct Result {
  int status = -1;  // -1: a signal ended it
  std::string out, err;
};

// The shell splits `arguments` and `variables` (NAME=VALUE ...).
inline Result run_program(const std::string& program, const std::string& arguments, const std::string& variables = "") {
  const TempFolder folder;
  const std::filesystem::path out = folder.path() / "out", err = folder.path() / "err";
  const std::string command =
      variables + " '" + program + "' " + arguments + " > '" + out.string() + "' 2> '" + err.string() + "'";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(out), read_file(err)};
}

}  // namespace pipetrain
