// Runs a program to its end, or ends it with all processes that it started.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace pipetrain::bench {

struct Command {
  std::vector<std::string> arguments;              // arguments[0]: the program, found on PATH
  std::map<std::string, std::string> environment;  // in addition to this program's
  std::string without;           // this program's variables with this prefix are not passed on; empty: all are
  std::filesystem::path output;  // file for stdout; stderr goes to the same name with .err added
  double seconds = 600;          // limit, after which it is ended
};

struct Ended {
  bool in_time = true;
  int status = 0;  // as a shell reports it: 128 + the signal that ended it; 127: no such program
  bool ok() const { return in_time && status == 0; }
};

// Throws Error(unavailable) if no process can be made.
Ended run_command(const Command& command);

// Returns the command's output: stdout, and the last lines of stderr in one line, preceded by the last earlier line
// that mentions an error, to say why it failed.
std::string output_of(const Command& command);
std::string last_words(const Command& command, std::size_t most_characters = 300);
// Returns "ended with status 1: ...", "was ended after 600 s: ...".
std::string why_failed(const Command& command, const Ended& ended);

}  // namespace pipetrain::bench
