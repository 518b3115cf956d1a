// Setting names one setting of a user, in errors and in rules about settings.
#pragma once

#include <string>

namespace pipetrain {

// A setting: its name, which is the option's without dashes ("seq-len"), and its value ("3"), empty where
// none was given.
struct Setting {
  std::string name, value;
};

}  // namespace pipetrain
