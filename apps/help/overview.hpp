// The first page that a newcomer sees: five commands with an example each, and where to read on.
#pragma once

#include <string>

namespace pipetrain {

// Returns the page that `pipetrain` alone prints in a terminal. It fits in 24 lines of 100 columns.
std::string overview();

// Returns the overview, followed by all options of train.
std::string train_help();

}  // namespace pipetrain
