#pragma once

namespace pipetrain {

// Returns the columns of stdout's terminal; 80 if stdout is not a terminal.
int terminal_width();

}  // namespace pipetrain
