// Runs a program to its end, or ends it with all it started.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace pipetrain::bench {

struct Command {
  std::vector<std::string> arguments;              // arguments[0]: the program, found on PATH
  std::map<std::string, std::string> environment;  // beside ours
  std::string without;                             // variables of ours that begin so are not passed on; empty: all are
  std::filesystem::path output;                    // where stdout goes; stderr goes to the same name with .err added
  double seconds = 600;                            // then it is ended
};

struct Ended {
  bool in_time = true;
  int status = 0;  // as a shell reports it: 128 + the signal that ended it; 127: no such program
  bool ok() const { return in_time && status == 0; }
};

// Throws Error(unavailable) when no process can be made.
Ended run_command(const Command& command);

// Of what the command wrote: stdout, and the last lines of stderr in one line with the last
// one before that speaks of an error, to say why it failed.
std::string output_of(const Command& command);
std::string last_words(const Command& command, std::size_t most_characters = 300);
// "ended with status 1: ...", "was ended after 600 s: ...".
std::string why_failed(const Command& command, const Ended& ended);

}  // namespace pipetrain::bench
