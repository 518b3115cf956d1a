// Ends this process of an elastic run, which goes on without it.
#pragma once

#include <string>

namespace pipetrain {

// Ends the process with status 0 as one that leaves on purpose: prints a note, unless the text is empty, and reports to the
// launcher. Everything that the other processes need must have been passed on. Its threads are not joined, because they may
// serve the other processes until these have noticed the end.
[[noreturn]] void leave_run(const std::string& note);

}  // namespace pipetrain
