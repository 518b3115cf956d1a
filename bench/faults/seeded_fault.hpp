// A failure of a run of several processes, drawn by a seed, and the error that must report it.
#pragma once

#include <string>

namespace pipetrain::bench {

enum class Fault { raise, exit, kill, stop, hang, link, disk, memory };
inline constexpr Fault all_faults[] = {Fault::raise, Fault::exit, Fault::kill, Fault::stop,
                                       Fault::hang,  Fault::link, Fault::disk, Fault::memory};
const char* to_string(Fault kind);

struct SeededFault {
  Fault kind = Fault::raise;
  int processes = 2, pp = 2, dp = 1;
  int rank = 0, process = 0;  // those that fail
  int step = 1;
  bool restart = false;

  std::string layout() const;  // options; equal texts give equal results
  // The value of PIPETRAIN_FAULT for a failure that the program causes itself, else empty.
  std::string variable() const;
  // Returns true if the line names the rank or process, and the cause, and none of the others.
  bool is_named_in(const std::string& line) const;
};

SeededFault seeded_fault(Fault kind, unsigned seed);

}  // namespace pipetrain::bench
