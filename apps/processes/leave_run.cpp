#include "apps/processes/leave_run.hpp"

#include <cstdio>
#include <cstdlib>

#include "apps/output/launch_report.hpp"
#include "apps/output/stderr_lines.hpp"
#include "comm/ucx/ucx_process.hpp"

namespace pipetrain {

void leave_run(const std::string& note) {
  report_left();
  if (!note.empty()) print_note(note);
  hold_ucx_openings();
  std::fflush(nullptr);
  std::_Exit(0);
}

}  // namespace pipetrain
