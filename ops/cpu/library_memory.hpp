#pragma once

namespace pipetrain::cpu {

// oneDNN writes machine code when it meets a kind of product for the first time, and takes buffers for each: where a limit on
// the address space (ulimit -v) leaves no room for them, it crashes. Throws Error(out_of_memory) before that. Costs nothing in
// a process without such a limit. Thread-safe.
void require_library_memory();

}  // namespace pipetrain::cpu
