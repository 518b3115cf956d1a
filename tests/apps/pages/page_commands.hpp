// The shell commands in the code blocks of a page.
//
// A block is of commands if its language is `sh`, or if it has no language and one of its lines begins with a program.
// Lines that begin with "$ " are commands then and the others are what they print; without such lines the block is a
// script. A word after `sh` says why no test can run the block; its options are checked all the same:
//   gpu       needs a GPU, or a model that is too large for a test
//   hosts     needs several hosts, several terminals, or another launcher
//   network   fetches something, or needs a program that fetches
//   minutes   builds something, or takes minutes
#pragma once

#include <string>
#include <vector>

namespace pipetrain::pages {

struct Commands {
  std::size_t line = 0;  // of the page, counted from 1
  std::string text;      // for a shell: a whole script, or one command
  std::string mark;      // empty: a test runs it
  std::string error;     // the line that the command ends with, where the page shows one
  bool marked() const { return !mark.empty(); }
};

// Throws std::runtime_error for an unknown word after `sh`.
std::vector<Commands> commands_of_page(const std::string& text);

// Returns the code in prose that begins with the program's name.
std::vector<std::string> commands_in_prose(const std::string& text);

// Divides a text for a shell into its commands of pipetrain, each as words after the program's name, without quotes. Only
// the words matter here: a pipe, a redirection or a comment ends a command.
std::vector<std::vector<std::string>> program_calls(const std::string& text);

}  // namespace pipetrain::pages
