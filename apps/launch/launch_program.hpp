// `pipetrain launch --nproc N python script.py` starts another program, whose processes connect themselves
// (pipetrain.World in Python).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "apps/options/process_options.hpp"

namespace pipetrain {

struct LaunchProgram {
  LaunchOptions launch;
  std::string file;                // the path at which it was found
  std::vector<std::string> words;  // its name as given, and its arguments
};

// Returns nothing if the arguments name no program: they then begin with options other than launch's own, or with a
// command of pipetrain. Throws Error(input), also for a program that is not on PATH.
std::optional<LaunchProgram> read_launch_program(const std::vector<std::string>& arguments,
                                                 const std::map<std::string, std::string>& environment);

// Returns how many of the arguments are launch's own: those before the name of another program, else all.
std::size_t arguments_of_launch(const std::vector<std::string>& arguments);

}  // namespace pipetrain
