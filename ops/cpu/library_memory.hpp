#pragma once

namespace pipetrain::cpu {

// oneDNN generates machine code for each new kind of product and allocates buffers for it; if a limit on the
// address space (ulimit -v) leaves no room for them, it crashes. Throws Error(out_of_memory) before that
// happens. Costs nothing in a process without such a limit. Thread-safe.
void require_library_memory();

}  // namespace pipetrain::cpu
