// The table of what does not work together, as documentation prints it.
#pragma once

#include <string>

namespace pipetrain {

// Returns, in Markdown, a list of what is not built yet, an empty line, and a table of all features that do not work together.
std::string combinations_page();

}  // namespace pipetrain
