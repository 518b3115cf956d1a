#pragma once

namespace pipetrain {

// Columns of the terminal that stdout goes to; 80 where it goes elsewhere.
int terminal_width();

}  // namespace pipetrain
