// The layout of a run that changes it, as all its processes know it.
#pragma once

#include <string>

namespace pipetrain {

struct RunLayout {
  int changes = 0;   // since the run began
  std::string text;  // from the owner of the processes, with the last change; empty at first

  static void wire_fields(auto& wire, auto& layout) { wire(layout.changes, layout.text); }
};

}  // namespace pipetrain
